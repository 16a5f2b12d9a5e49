"""The serving engine with one planted fault each that shows when steps are disturbed."""

from __future__ import annotations

from draftproof.reference.vocabulary import Batch, ContextRow, StepResult
from draftproof.sim.engine import Engine
from draftproof.sim.journal import Asked, Fed
from draftproof.sim.requests import Request


class ChunkRetried(Engine):
    """A chunk is fed again to a request that was paused behind it; no public report."""

    def _deliver(
        self, batch: Batch, result: StepResult, b: int, request: Request, launched: Batch | None
    ) -> None:
        row = batch.rows[b]
        chunk = isinstance(row, ContextRow) and row.first_position + row.length < request.length
        if not (chunk and request.pause):
            super()._deliver(batch, result, b, request, launched)


class CancelLeavesSlot(Engine):
    """A request cancelled while its step runs keeps its sequence slot; no public report."""

    def _depart(self, request: Request, reason: str) -> None:
        super()._depart(request, reason)
        kinds = [type(entry) for entry in self.journal.entries[-3:-1]]
        if kinds == [Fed, Asked] and request.seq_slot in self.seq_slots:
            self.seq_slots.remove(request.seq_slot)


class LostWakeUp(Engine):
    """A request whose result is lost waits on, step after step, for ever; no public report."""

    def _give_up(self) -> None:
        for request in self.missing:
            request.pause = 1
