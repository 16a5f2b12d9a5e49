"""What a worker must refuse, and a forward that never comes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from batches import make_model, small, snapshot

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import UNDONE, Batch, BatchError, StepResult
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import AnyEvent, Step, Submit, Warmup
from draftproof.sim.lockstep import check
from draftproof.sim.packing import before_target
from draftproof.sim.refusals import refused, unanswerable
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


CONFIGS: dict[str, dict[str, Any]] = {
    "strict": {},
    "one slot": {"max_num_requests": 1},
    "ragged": {"confidence_scheduling": True},
    "numbers given": {"use_rejection_sampling": True, "vocab_size": 6},
    "numbers drawn": {"use_rejection_sampling": True, "vocab_size": 6, "drawn_uniforms": True},
    "logits": {"target_logits": True, "vocab_size": 6},
}


@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS)
def test_the_model_refuses_all_that_is_offered_and_keeps_its_state(changes: dict[str, Any]) -> None:
    """If this fails, a worker has to refuse what the specification accepts."""
    config = small(**changes)
    model = make_model(config)
    model.prepare(before_target(unanswerable(config)[0]))  # nothing is wrong with that one
    before = snapshot(model)
    for reason, batch in refused(config):
        with pytest.raises(BatchError):
            model.prepare(before_target(batch))
        assert snapshot(model) == before, reason
    good, answers = unanswerable(config)
    for reason, batch in answers:
        model.prepare(before_target(good))
        with pytest.raises(BatchError):
            model.forward(batch)
        assert snapshot(model) == before, reason
    model.prepare(before_target(good))
    model.forward(good)


class TakesAnyAnswer(Model):
    """A forward that does without what is not there."""

    def forward(self, batch: Batch) -> StepResult:
        try:
            return super().forward(batch)
        except BatchError:
            return StepResult([], [], [], [], "uniform")


class AdvancesFirst(Model):
    """It looks at the answer when it has begun to change."""

    def forward(self, batch: Batch) -> StepResult:
        try:
            return super().forward(batch)
        except BatchError:
            self.stamps[0] += 1
            raise


@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize(
    ("worker", "signature"),
    [
        (TakesAnyAnswer, ("exception", "BatchError")),
        (AdvancesFirst, ("comparison", "confidence_stamp")),
    ],
)
def test_answers_that_nobody_may_accept_are_offered_to_every_worker(
    changes: dict[str, Any], worker: type[Model], signature: tuple[str, str]
) -> None:
    """If this fails, a forward may go on with arrays that are too short, or change on refusal."""
    run = replay(small(**changes), EVENTS)
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
