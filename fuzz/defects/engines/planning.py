"""Engines that plan by the wrong confidences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from draftproof.reference.confidence import Snapshot
from draftproof.reference.vocabulary import GenerationRow
from draftproof.sim.engine import Engine


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
