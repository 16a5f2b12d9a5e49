"""Engines that make the wrong thing of a result."""

from __future__ import annotations

from draftproof.reference.lengths import deliverable
from draftproof.reference.vocabulary import Batch, ContextRow, GenerationRow, StepResult
from draftproof.sim import journal as log
from draftproof.sim.engine import Engine
from draftproof.sim.events import AnyEvent, Recompute
from draftproof.sim.requests import Request


class StopIgnored(Engine):
    """A stop token ends the request, but what was accepted behind it is emitted: STOP-2, STOP-3."""

    def _kept(self, request: Request, tokens: list[int]) -> list[int]:
        return deliverable(tokens, None, request.room)


class LateResultMisdelivered(Engine):
    """A late result goes to whoever has the request's id by now, not its incarnation: PRE-4."""

    def _recipient(self, row: ContextRow | GenerationRow) -> Request | None:
        return next((r for r in self.everybody if r.request_id == row.request_id), None)


class LateResultTwice(Engine):
    """Results handed over while the next step is under way come once more; no public report."""

    def settle(self, launched: Batch | None = None) -> None:
        pending = self.pending
        super().settle(launched)
        if launched is not None:
            self.pending = pending
            super().settle(launched)


class LateResultToTheDeparted(Engine):
    """A result that comes late is applied to a request that is over: LAG-1, STAT-4."""

    def _depart(self, request: Request, reason: str) -> None:
        admitted = request in self.running
        super()._depart(request, reason)
        if admitted:
            self.lives[request.incarnation] = request


class PreemptedInFlight(Engine):
    """A request starts again with a result in flight, which moves it on afterwards: PRE-1."""

    def handle(self, event: AnyEvent) -> Batch | None:
        request = self._find(event.request) if isinstance(event, Recompute) else None
        if request is None or request not in self.running:
            return super().handle(event)
        request.restart()
        self.journal.write(log.Restarted(request.incarnation))
        return None


class LimitIgnored(Engine):
    """The room that is left is not subtracted: tokens beyond the limit are emitted: STOP-7."""

    def _kept(self, request: Request, tokens: list[int]) -> list[int]:
        return deliverable(tokens, request.stop, len(tokens))


class CompletionIgnored(Engine):
    """What was accepted behind the end of a grammar's text is emitted: GRAM-10."""

    def _kept(self, request: Request, tokens: list[int]) -> list[int]:
        return deliverable(tokens, None if request.grammar else request.stop, request.room)


class DroppedTokensCounted(Engine):
    """What was accepted behind the end is not emitted, but stays in all counts: STOP-3, STAT-5."""

    def _kept(self, request: Request, tokens: list[int]) -> list[int]:
        kept = super()._kept(request, tokens)
        request.length += len(tokens) - len(kept)
        return kept


class ReservedNotGivenBack(Engine):
    """What was reserved for rejected drafts stays reserved: CAP-4."""

    def _deliver(
        self, batch: Batch, result: StepResult, b: int, request: Request, launched: Batch | None
    ) -> None:
        before = request.reserved
        super()._deliver(batch, result, b, request, launched)
        request.reserved = before


class ZeroStepNotConsumed(Engine):
    """A step without drafts leaves its row behind, so the same token is fed once more: GAP-6."""

    def _deliver(
        self, batch: Batch, result: StepResult, b: int, request: Request, launched: Batch | None
    ) -> None:
        super()._deliver(batch, result, b, request, launched)
        if not batch.draft_len and b >= len(batch.contexts):
            request.computed -= 1


class EndedAtPromptKeepsPlace(Engine):
    """A request that ends with its first token does not give its place back: STOP-6."""

    def _depart(self, request: Request, reason: str) -> None:
        admitted = request in self.running
        super()._depart(request, reason)
        if admitted and reason == "finished" and len(request.output) == 1:
            self.seq_slots.pop()
