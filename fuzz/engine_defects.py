"""The serving engine with one planted fault each.

Model and implementation get the same wrong batch, or agree on a result that goes astray later, so
comparing them shows nothing: invariants and plain decoding must find these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from draftproof.reference.confidence import Snapshot
from draftproof.reference.lengths import deliverable, fit_drafts
from draftproof.reference.vocabulary import Batch, ContextRow, GenerationRow
from draftproof.sim.engine import Engine
from draftproof.sim.events import Step
from draftproof.sim.requests import Request


class LookupFromWrongSide(Engine):
    """Of the schedule's keys the last one <= the batch size decides; no public report."""

    def _draft_len(self, event: Step, size: int) -> int:
        schedule = self.config.draft_len_schedule
        if schedule is None:
            return super()._draft_len(event, size)
        return next((r for key, r in reversed(schedule) if key <= size), self.config.max_draft_len)


class DraftsOfAnother(Engine):
    """Drafts are looked up by row in the engine's own order, not the batch's: LAG-4, ROW-7."""

    def _drafts(self, request: Request, row: int, draft_len: int) -> list[int]:
        decoding = [view for view in self.views if view.decoding]
        return fit_drafts(decoding[row].drafts, draft_len)


class StaleDrafts(Engine):
    """A step that proposes nothing leaves the drafts of the step before it in place: GAP-7."""

    def _propose(self, request: Request, row: int, drafts: list[int]) -> None:
        if drafts:
            super()._propose(request, row, drafts)


class StopIgnored(Engine):
    """A stop token ends the request, but what was accepted behind it is emitted: STOP-2, STOP-3."""

    def _kept(self, request: Request, tokens: list[int]) -> list[int]:
        return deliverable(tokens, None, request.room)


class LateResultMisdelivered(Engine):
    """A late result goes to whoever has the request's id by now, not its incarnation: PRE-4."""

    def _recipient(self, row: ContextRow | GenerationRow) -> Request | None:
        return next((r for r in self.everybody if r.request_id == row.request_id), None)


class RecycledSlot(Engine):
    """An old snapshot is read at the request's present slot; no public report.

    Stamps cannot show it: the row is that of whoever held the slot then.
    """

    def _sources(self, snapshot: Snapshot, rows: Sequence[GenerationRow]) -> list[int]:
        newest = self.snapshots.newest
        owners = snapshot.owners if newest is None else newest.owners
        return replace(snapshot, owners=owners).sources(rows)


class CurrentConfidences(Engine):
    """The host schedules by the confidences of the very drafts; no public report.

    The paper's Appendix A: with a search that looks ahead this changes the law of the output.
    """

    def _seen(self, age: int) -> Snapshot | None:
        return self.snapshots.newest if super()._seen(age) else None


class LateResultTwice(Engine):
    """Results handed over while the next step is under way come once more; no public report."""

    def settle(self, launched: Batch | None = None) -> None:
        pending = self.pending
        super().settle(launched)
        if launched is not None:
            self.pending = pending
            super().settle(launched)
