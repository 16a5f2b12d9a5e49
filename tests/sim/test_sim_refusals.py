"""What a worker must refuse, and a forward that never comes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from batches import small

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import UNDONE, Batch, BatchError, StepResult
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import AnyEvent, Step, Submit, Warmup
from draftproof.sim.lockstep import check
from draftproof.sim.run import replay

EVENTS: tuple[AnyEvent, ...] = (Submit(0, prompt=2, limit=9), Submit(1, limit=9), Step(), Step())


class TakesAnything(Model):
    """It lets nobody know that it cannot serve a batch."""

    def prepare(self, batch: Batch) -> None:
        with suppress(BatchError):
            super().prepare(batch)


class RefusesLate(Model):
    """Whoever left is forgotten before the batch is looked at."""

    def prepare(self, batch: Batch) -> None:
        if batch.mode not in UNDONE:
            self.slots.forget_departed(batch)
        super().prepare(batch)


class RefusesInItsOwnWords(Model):
    """Its exception is not the one that was agreed on."""

    def prepare(self, batch: Batch) -> None:
        try:
            super().prepare(batch)
        except BatchError as error:
            raise RuntimeError(str(error)) from error


@pytest.mark.parametrize(
    ("worker", "signature"),
    [
        (TakesAnything, ("exception", "BatchError")),
        (RefusesLate, ("comparison", "slots")),
        (RefusesInItsOwnWords, ("exception", "RuntimeError")),
    ],
)
def test_a_batch_that_nobody_may_accept_is_offered_to_every_worker(
    worker: type[Model], signature: tuple[str, str]
) -> None:
    """If this fails, a worker may accept too many rows, or an id twice, or change on refusal."""
    run = replay(small(), EVENTS)
    check(run, Model)
    with pytest.raises(Divergence) as raised:
        check(run, worker)
    assert raised.value.signature == signature


class OneForwardEach(Model):
    """It counts on a forward after each prepare."""

    open = False

    def prepare(self, batch: Batch) -> None:
        assert not self.open, "prepared twice"
        super().prepare(batch)
        self.open = True

    def forward(self, batch: Batch) -> StepResult:
        self.open = False
        return super().forward(batch)


@pytest.mark.parametrize("event", [Step(fault="target"), Warmup(fault="target")])
def test_a_forward_may_never_come(event: Any) -> None:
    """If this fails, a target that fails between prepare and forward is never tried."""
    run = replay(small(), [*EVENTS[:3], event, *EVENTS[2:]])
    assert (run.steps[1].fault, run.steps[1].result) == ("target", None)
    check(run, Model)
    with pytest.raises(Divergence, match="prepared twice"):
        check(run, OneForwardEach)
