"""What the schedule asks for happens: engines that do something else, and when that is noticed."""

import msgspec
import pytest

from draftproof.fuzz.cases import Subject
from draftproof.fuzz.defects.finding import find_seeded
from draftproof.reference.vocabulary import Batch
from draftproof.sim import journal as log
from draftproof.sim.engine import Engine
from draftproof.sim.events import AnyEvent, Cancel, Pause, Recompute, Step
from draftproof.sim.requests import Request


class CancelIgnored(Engine):
    """The client goes away, and nobody cares."""

    def handle(self, event: AnyEvent) -> Batch | None:
        return None if isinstance(event, Cancel) else super().handle(event)


class CancelsAnother(Engine):
    """Whoever came last is cancelled instead."""

    def handle(self, event: AnyEvent) -> Batch | None:
        if isinstance(event, Cancel) and event.request in self.live:
            event = Cancel(self.live[-1])
        return super().handle(event)


class PauseIgnored(Engine):
    """A paused request is served."""

    def handle(self, event: AnyEvent) -> Batch | None:
        return None if isinstance(event, Pause) else super().handle(event)


class PausedForEver(Engine):
    """A paused request never returns."""

    def handle(self, event: AnyEvent) -> Batch | None:
        if isinstance(event, Pause):
            event = Pause(event.request, 1 << 20)
        return super().handle(event)


class RecomputeIgnored(Engine):
    """A request that should start again goes on."""

    def handle(self, event: AnyEvent) -> Batch | None:
        return None if isinstance(event, Recompute) else super().handle(event)


class SlotLeaked(Engine):
    """The sequence slot of a cancelled request is lost, so that fewer and fewer are admitted."""

    def _depart(self, request: Request, reason: str) -> None:
        super()._depart(request, reason)
        if reason == "cancelled" and request.seq_slot is not None:
            self.seq_slots.remove(request.seq_slot)


class LastComeFirstServed(Engine):
    """Those who wait longest wait longer."""

    def _admit(self) -> None:
        self.waiting.reverse()
        super()._admit()
        self.waiting.reverse()


class LastOneStarved(Engine):
    """With four requests the last one is left out, its drafts dropped as they should be."""

    def _schedule(self, event: Step) -> list[Request]:
        ready = super()._schedule(event)
        for request in ready[3:]:
            request.drafts = []
        return ready[:3]


class NeverReplays(Engine):
    """Every step is eager, whatever was captured."""

    def _step(self, event: Step) -> Batch:
        return super()._step(msgspec.structs.replace(event, graph=False))

    def _draft_len(self, event: Step, size: int) -> int:
        return super()._draft_len(event, size)


class WaitingFailToo(Engine):
    """A failed step fails those who had not been admitted."""

    def failed(self, batch: Batch, prepared: bool = True) -> None:
        super().failed(batch, prepared)
        for request in list(self.waiting):
            self._depart(request, "failed")


class WarmupsHurt(Engine):
    """A warm-up that fails fails the requests, too."""

    def failed(self, batch: Batch, prepared: bool = True) -> None:
        super().failed(batch, prepared)
        for request in list(self.running):
            self._depart(request, "failed")


class AdmittedSurvive(Engine):
    """A failed step fails nobody whose first chunk is still to come."""

    def failed(self, batch: Batch, prepared: bool = True) -> None:
        self.journal.write(log.Answered(None, prepared))
        fed = {row.incarnation for row in batch.rows}
        for request in [r for r in self.running if r.incarnation in fed and batch.mode != "warmup"]:
            self._depart(request, "failed")


@pytest.mark.parametrize(
    "engine",
    [
        CancelIgnored,
        CancelsAnother,
        PauseIgnored,
        PausedForEver,
        RecomputeIgnored,
        SlotLeaked,
        LastComeFirstServed,
        LastOneStarved,
        NeverReplays,
        WaitingFailToo,
        WarmupsHurt,
        AdmittedSurvive,
    ],
)
def test_an_engine_that_does_something_else_is_found(engine: type[Engine]) -> None:
    """If this fails, an engine may ignore what it is told, and every oracle agrees with it."""
    found = find_seeded(Subject(None, engine), 0, most_steps=5_000)
    assert found is not None
    assert found.divergence.signature == ("invariant", "as asked")


def test_an_engine_that_does_as_told_is_not_blamed() -> None:
    """If this fails, the schedule is read in another way than the engine reads it."""
    assert find_seeded(Subject(None), 0, most_steps=5_000) is None
