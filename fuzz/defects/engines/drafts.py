"""Engines that verify the wrong drafts."""

from __future__ import annotations

from draftproof.reference.lengths import fit_drafts
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


class DraftsByBatchRow(Engine):
    """Only requests with drafts have an entry, which is looked up by row of the batch: ROW-11."""

    def _drafts(self, request: Request, row: int, draft_len: int) -> list[int]:
        entries = [view.drafts for view in self.views if view.decoding and view.drafts]
        batch_row = row + sum(not view.decoding for view in self.views)
        entry = entries[batch_row] if batch_row < len(entries) else request.drafts
        return fit_drafts(entry, draft_len)


class SwapThroughViews(Engine):
    """Two rows are swapped by `a, b = b, a` over views, so both have what one had: ROW-13."""

    def _schedule(self, event: Step) -> list[Request]:
        ready = super()._schedule(event)
        decoding = [view for view in ready if view.decoding]
        if event.rotate and len(decoding) > 1:
            decoding[0].drafts = decoding[-1].drafts
        return ready


class DraftsOfTheHost(Engine):
    """In an overlapped step drafts are those that the host knows, one step too old: LAG-4."""

    def _drafts(self, request: Request, row: int, draft_len: int) -> list[int]:
        return super()._drafts(self.lives[request.incarnation], row, draft_len)


class PausedKeepsDrafts(Engine):
    """A request that was left out of a step comes back with the drafts of before: PRE-3."""

    def _schedule(self, event: Step) -> list[Request]:
        before = {request.incarnation: request.drafts for request in self.running}
        ready = super()._schedule(event)
        for request in self.running:
            request.drafts = request.drafts or before[request.incarnation]
        return ready


class PlaceholdersOfTheAbsent(Engine):
    """For a request that waits, placeholders are kept as its last drafts: LEAK-7."""

    def _schedule(self, event: Step) -> list[Request]:
        ready = super()._schedule(event)
        served = {view.incarnation for view in ready}
        for request in self.running:
            if request.incarnation not in served:
                request.drafts = [0] * self.config.max_draft_len
        return ready


class SkipFillsWithZeros(Engine):
    """Where nothing was drafted, zeros are verified, and counted as drafts: STAT-3."""

    def _propose(self, request: Request, row: int, drafts: list[int]) -> None:
        super()._propose(request, row, drafts or [0] * self.config.max_draft_len)
