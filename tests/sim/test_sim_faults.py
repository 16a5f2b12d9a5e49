"""Faults injected at the seams, failing steps and warm-ups, in a worker beside the model."""

from __future__ import annotations

from array import array
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from batches import small
from schedules import play
from spoilers import plain, spoiled

from draftproof.reference.answers import token_rows
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import (
    ROW_COMPONENTS,
    SEAMS,
    Batch,
    Collaborators,
    Config,
    StepResult,
    WorkerState,
)
from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import InjectedFault
from draftproof.sim.events import FAULTS, AnyEvent, Step, Submit, Warmup
from draftproof.sim.lockstep import Checked, MakeWorker, check


def faulty(seam: str | None, *behind: AnyEvent) -> tuple[AnyEvent, ...]:
    """A step, one that fails, and some more."""
    submits = [Submit(i, prompt=2, limit=30) for i in range(5)]
    return (*submits, Step(), Step(fault=seam), *behind)


def checked(make: MakeWorker, *events: AnyEvent) -> Checked:
    return check(play(small(), *events), make)


def met(seen: Checked) -> tuple[int, int, int]:
    """Steps, faults that found no seam, and faults that happened."""
    return seen.steps, seen.faults_without_seam, seen.faults.total()


def caught(make: MakeWorker, *events: AnyEvent) -> Divergence:
    with pytest.raises(Divergence) as info:
        checked(make, *events)
    return info.value


@pytest.mark.parametrize("seam", FAULTS)
def test_a_fault_that_passes_is_as_it_should_be(seam: str) -> None:
    """If this fails, injected faults are reported as findings."""
    events = faulty(seam, Step(), Warmup(fault=seam), Step(), Step(fault=seam), Step())
    assert met(checked(Model, *events)) == (7, 0, 3)


class Swallows(Model):
    """Carries on after whatever happens."""

    answer: StepResult | None = None

    def forward(self, batch: Batch) -> Any:
        with suppress(InjectedFault):
            self.answer = super().forward(batch)
        return self.answer


class SeesZeros(Model):
    """Takes missing hidden rows for zeros (section 16, row 7)."""

    def forward(self, batch: Batch) -> Any:
        if batch.hidden is None:
            zeros = array("b", bytes(ROW_COMPONENTS * token_rows(batch)))
            batch = replace(batch, hidden=zeros)
        return super().forward(batch)


@pytest.mark.parametrize("events", [faulty("hidden"), (Step(), Warmup(fault="hidden"))])
def test_a_worker_that_goes_on_without_hidden_rows_is_found(events: tuple[AnyEvent, ...]) -> None:
    """If this fails, drafts are made of zeros, and later frames bear wrong labels."""
    divergence = caught(SeesZeros, *events)
    assert divergence.signature == ("exception", "BatchError")
    assert (divergence.expected, divergence.step) == ("raised, for there are no hidden rows", 1)


class SwallowsSilently(Model):
    def forward(self, batch: Batch) -> Any:
        try:
            return super().forward(batch)
        except InjectedFault:
            return None


@pytest.mark.parametrize("make", [Swallows, SwallowsSilently])
@pytest.mark.parametrize("seam", SEAMS)
def test_a_worker_that_swallows_the_fault_is_found(make: MakeWorker, seam: str) -> None:
    """If this fails, a worker hides failures, and its next results are of a step that failed."""
    for events in (faulty(seam), (Step(), Warmup(fault=seam))):
        divergence = caught(make, *events)
        assert divergence.signature == ("exception", "fault")
        assert divergence.expected == f"the fault at {seam!r}"
        assert divergence.step == 1


class Disguises(Model):
    def forward(self, batch: Batch) -> StepResult:
        try:
            return super().forward(batch)
        except InjectedFault as error:
            raise RuntimeError("something went wrong") from error


def test_a_worker_that_disguises_the_fault_is_found() -> None:
    """If this fails, an exception of the worker's own passes for the injected one."""
    assert caught(Disguises, *faulty("draft")).signature == ("exception", "RuntimeError")


class RaisesLater(Model):
    late: InjectedFault | None = None

    def forward(self, batch: Batch) -> StepResult:
        if self.late is not None:
            raise self.late
        try:
            return super().forward(batch)
        except InjectedFault as error:
            self.late = error
            raise


def test_a_fault_that_comes_again_in_a_later_step_is_found() -> None:
    """If this fails, a step that should succeed may fail with an old error."""
    divergence = caught(RaisesLater, *faulty("draft", Step()))
    assert divergence.signature == ("exception", "InjectedFault")
    assert divergence.step == 2


def seamless(*kept: str) -> MakeWorker:
    """The model, but it calls only some of its seams."""

    def make(config: Config, lent: Collaborators) -> Model:
        def at(seam: str) -> None:
            if seam in kept:
                lent.at(seam)

        return Model(config, Collaborators(at, lent.drafter))

    return make


@pytest.mark.parametrize("seam", SEAMS)
def test_a_fault_at_a_seam_that_is_never_called_ends_the_case_and_is_counted(seam: str) -> None:
    """If this fails, a worker without that seam is called wrong, or nobody hears of it."""
    events = faulty(seam, Step(), Step())
    assert met(checked(seamless(), *events)) == (1, 1, 0)
    others = [name for name in SEAMS if name != seam]
    assert met(checked(seamless(*others), *events)) == (1, 1, 0)
    assert met(checked(seamless(seam), *events)) == (4, 0, 1)
    assert met(checked(seamless(), *faulty(None, Step()))) == (3, 0, 0)


def scrambled(*steps: int) -> MakeWorker:
    """The model, but after some forwards its state shows rubbish, slots and queue excepted."""

    class Scrambled(Model):
        now = -1

        def forward(self, batch: Batch) -> StepResult:
            self.now = batch.step
            return super().forward(batch)

        def state(self) -> WorkerState:
            state = plain(super().state())
            if self.now in steps:
                state.ctx_len = [99] * 4
                state.valid_len = state.initialized = state.windows = None
                state.confidence_logits = [[1.0] * 3] * 5
                state.batch_to_slot = [7, 7, 7]
            return state

    return Scrambled


@pytest.mark.parametrize("seam", SEAMS)
def test_rows_of_a_failed_step_are_not_compared_until_the_next_prepare(seam: str) -> None:
    """If this fails, a worker must clean up at once, or a warm-up counts as a prepare() although
    it is undone; or nothing is compared any more after a failure."""
    events = faulty(seam, Warmup(), Warmup(fault=seam), Step())
    assert checked(scrambled(1, 2, 3), *events).steps == 5
    divergence = caught(scrambled(4), *events)
    assert (divergence.step, divergence.field) == (4, "ctx_len")


@pytest.mark.parametrize("name", ["slots", "free_slots"])
def test_who_owns_which_slot_is_compared_after_a_failed_step_too(name: str) -> None:
    """If this fails, a failure may lose or double a slot."""
    wrong: dict[str, Any] = {"slots": {1: 0}, "free_slots": [0]}
    spoil = spoiled_after_failure(name, wrong[name])
    divergence = caught(spoil, *faulty("draft"))
    assert (divergence.step, divergence.field) == (1, name)


def spoiled_after_failure(name: str, value: Any) -> MakeWorker:
    class Spoiled(Model):
        failed = False

        def forward(self, batch: Batch) -> StepResult:
            try:
                return super().forward(batch)
            except InjectedFault:
                self.failed = True
                raise

        def state(self) -> WorkerState:
            state = plain(super().state())
            if self.failed:
                setattr(state, name, value)
            return state

    return Spoiled


class CountsWarmups(Model):
    def prepare(self, batch: Batch) -> None:
        super().prepare(batch)
        self.draft_seq += batch.mode == "warmup"


class RemembersFailedWarmups(Model):
    def forward(self, batch: Batch) -> StepResult:
        try:
            return super().forward(batch)
        except InjectedFault:
            self.draft_seq += batch.mode == "warmup"
            raise


@pytest.mark.parametrize(
    ("make", "fault"), [(CountsWarmups, None), (RemembersFailedWarmups, "publish")]
)
def test_a_warm_up_that_leaves_a_trace_is_found(make: MakeWorker, fault: str | None) -> None:
    """If this fails, a warm-up, or only one that fails, changes what requests get."""
    divergence = caught(make, Submit(0, limit=9), Step(), Warmup(fault=fault), Step())
    assert divergence.signature == ("comparison", "draft_seq")
    assert (divergence.step, divergence.event) == (1, 2)


def test_what_a_warm_up_answers_is_not_compared() -> None:
    """If this fails, a worker must draft something specified for requests that do not exist."""
    make = spoiled(1, result=lambda answer: answer.new_tokens.clear())
    assert checked(make, Step(), Warmup(), Step()).steps == 3
