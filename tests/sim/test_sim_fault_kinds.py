"""Every fault, at every place and of every kind: that it fires, and what comes of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import isfinite
from typing import Any

import pytest
from batches import small
from schedules import departed, play

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Batch, BatchError, StepResult
from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import INJECTED, InjectedFault
from draftproof.sim.events import AnyEvent, Cancel, Step, Submit, Warmup
from draftproof.sim.faults import (
    CORRUPT,
    LATE,
    PLACES,
    SILENT,
    SITES,
    Kind,
    kinds_at,
    normal,
    spoilt,
)
from draftproof.sim.journal import Asked, Delivered, Fed
from draftproof.sim.lockstep import Checked, MakeWorker, check
from draftproof.sim.run import Run

RAGGED: dict[str, Any] = {"confidence_scheduling": True}
SAMPLED: dict[str, Any] = {"use_rejection_sampling": True, "vocab_size": 6}


def schedule(place: str, kind: Kind, **step: Any) -> tuple[AnyEvent, ...]:
    """Three requests; a step that goes wrong, some more, and a warm-up that goes wrong."""
    sampled = bool(step.pop("sampled", False))
    submits = [Submit(i, prompt=2, limit=30, sampled=sampled) for i in range(4)]
    wrong = Step(fault=place, kind=kind, **step)
    warmup = Warmup(fault=place, kind=kind)
    return (*submits, Step(), Step(), wrong, Step(), Step(), warmup, Step())


def run_of(place: str, kind: Kind) -> Run:
    more: dict[str, Any] = {}
    config = small()
    if kind == "length":
        config, more = small(**RAGGED), {"windows": (2, 3, 1)}
    elif kind == "nan":
        config, more = small(**SAMPLED), {"sampled": True}
    return play(config, *schedule(place, kind, **more))


@pytest.mark.parametrize(("place", "kind"), SITES)
def test_it_fires_and_passes_as_it_should(place: str, kind: Kind) -> None:
    """If this fails, a fault is never injected, or a correct worker is blamed for it."""
    run = run_of(place, kind)
    wrong = run.steps[2]
    assert (wrong.fault, wrong.kind) == (place, kind)
    assert (wrong.result is None) == (kind not in SILENT)
    warmup = run.steps[5]
    lost = (place, kind) == ("result", "lost")  # nobody waits for what a warm-up answers
    here = "token" if kind in CORRUPT else kind  # there is nothing else in it
    assert (warmup.fault, warmup.kind) == ((None, kind) if lost else (place, here))
    assert [step.fault for step in run.steps[3:5]] == [None, None]
    met = Counter[tuple[str, str]]([(place, kind), *([] if lost else [(place, here)])])
    assert check(run, Model) == Checked(steps=7, faults=met)


def test_a_result_that_comes_one_step_late_is_counted_as_such() -> None:
    """If this fails, a campaign may say that results came late though none ever did."""
    submits = [Submit(i, prompt=2, limit=30) for i in (0, 1)]
    run = play(small(), Step(late=True), *submits, Step(late=True), Step(late=True), Step())
    assert [step.late for step in run.steps] == [False, False, True, False]  # nobody's: not late
    assert check(run, Model).faults == {LATE: 1}
    delivered = [e.step for e in run.journal.entries if isinstance(e, Delivered)]
    assert delivered[:2] == [1, 1]
    fed = [i for i, entry in enumerate(run.journal.entries) if isinstance(entry, Fed)]
    first = next(i for i, entry in enumerate(run.journal.entries) if isinstance(entry, Delivered))
    assert fed[2] < first < fed[3]


@pytest.mark.parametrize("place", [place for place in PLACES if "exception" in kinds_at(place)])
def test_a_failed_step_fails_everybody_admitted(place: str) -> None:
    """If this fails, a request goes on although a step of its was lost."""
    assert departed(run_of(place, "exception"))[:3] == [(i, "failed") for i in (1, 2, 3)]


@pytest.mark.parametrize("place", [place for place in PLACES if "cancel" in kinds_at(place)])
def test_a_request_cancelled_in_mid_step_is_given_nothing_of_it(place: str) -> None:
    """If this fails, the client of a cancelled request hears from it again."""
    run = run_of(place, "cancel")
    entries = [type(entry).__name__ for entry in run.journal.entries]
    at = entries.index("Departed")
    assert run.journal.entries[at - 1] == Asked(Cancel(0))
    assert entries[at - 2 : at] == ["Fed", "Asked"]
    assert departed(run)[0] == (1, "cancelled")
    given = [
        entry.step
        for entry in run.journal.entries
        if isinstance(entry, Delivered) and entry.incarnation == 1
    ]
    assert given == [0, 1]


def test_a_lost_result_is_waited_for_one_step_and_given_up_then() -> None:
    """If this fails, requests wait for ever, or go on without tokens that they were due."""
    run = run_of("result", "lost")
    assert departed(run)[:3] == [(i, "failed") for i in (1, 2, 3)]
    served = [sorted(row.incarnation for row in step.batch.rows) for step in run.steps]
    assert served[2:5] == [[1, 2, 3], [0], [4]]
    names = [type(entry).__name__ for entry in run.journal.entries]
    lost = names.index("Lost")
    assert names[lost : lost + 5] == ["Lost", "Asked", "Fed", "Answered", "Departed"]


def test_a_fault_at_a_place_that_a_step_does_not_pass_does_not_happen() -> None:
    """If this fails, steps without drafts fail in the drafter."""
    for place in ("stage", "sample"):
        run = play(small(), *schedule(place, "exception", draft_len=0))
        assert (run.steps[2].fault, run.steps[2].result is None) == (None, False)


def test_an_event_that_names_a_kind_of_another_place_means_the_first_one_there() -> None:
    """If this fails, a trace with an odd event cannot be shrunk or replayed."""
    assert normal("hidden", "hang") == "missing"
    assert normal("answer", "exception") == "token"
    assert normal("accept", "lost") == "exception"
    assert normal("start", "double") == "exception"


# ---- corrupted answers


@pytest.mark.parametrize("kind", CORRUPT)
@pytest.mark.parametrize("number", range(6))
def test_one_number_is_spoilt_and_only_one(kind: Kind, number: int) -> None:
    """If this fails, a corrupted answer is a good one, or is wrong in more than one place."""
    run = run_of("answer", kind)
    batch = replace(run.steps[2].batch, step=number)
    wrong, told = spoilt(batch, kind, run.config.vocab_size)
    assert told == kind
    changed = [
        name
        for name in ("verify_lens", "target_probs", "target_tokens", "hidden", "drafts")
        if repr(getattr(batch, name)) != repr(getattr(wrong, name))
    ]
    name = {"length": "verify_lens", "nan": "target_probs", "token": "target_tokens"}[kind]
    assert changed == [name]
    pairs = list(zip(getattr(batch, name), getattr(wrong, name), strict=True))
    (new,) = [b for a, b in pairs if repr(a) != repr(b)]
    if kind == "nan":
        assert not isfinite(new)
    elif kind == "token":
        assert not 0 <= new < run.config.vocab_size
    else:
        assert not 1 <= new <= 1 + batch.draft_len


@pytest.mark.parametrize(
    ("asked", "settings", "step", "real"),
    [
        ("length", {}, {}, "token"),
        ("length", SAMPLED, {"sampled": True}, "nan"),
        ("nan", {}, {}, "token"),
        ("nan", RAGGED, {"windows": (2, 3, 1)}, "token"),
        ("token", SAMPLED, {"sampled": True}, "token"),
        ("token", {"target_logits": True}, {}, "nan"),
        ("length", {"target_logits": True}, {}, "nan"),
    ],
)
def test_a_kind_of_number_that_a_step_has_not_is_told_as_what_was_spoilt(
    asked: Kind, settings: dict[str, Any], step: dict[str, Any], real: Kind
) -> None:
    """If this fails, a table says that lengths were corrupted in steps that have none."""
    run = play(small(**settings), *schedule("answer", asked, **step))
    assert (run.steps[2].fault, run.steps[2].kind) == ("answer", real)
    assert check(run, Model).faults["answer", real] == 2 - (real == "nan" and bool(step))


class Believes(Model):
    """Takes whatever the target leaves."""

    def forward(self, batch: Batch) -> StepResult:
        try:
            return super().forward(batch)
        except BatchError:
            return StepResult([], [], [], [], "uniform")


@pytest.mark.parametrize("kind", CORRUPT)
def test_a_worker_that_takes_a_corrupted_answer_is_found(kind: Kind) -> None:
    """If this fails, one row's NaN gets into windows, counters and other requests' tokens."""
    with pytest.raises(Divergence) as info:
        check(run_of("answer", kind), Believes)
    wanted = "raised, for the target's answer has a number that cannot be"
    assert (info.value.field, info.value.expected, info.value.step) == ("BatchError", wanted, 2)


# ---- kinds of exceptions


class _Tries(Model):
    """Carries on after some kind of failure."""

    forgives: tuple[type[BaseException], ...] = ()

    def forward(self, batch: Batch) -> StepResult:
        try:
            return super().forward(batch)
        except BatchError:
            raise
        except self.forgives:
            return StepResult([], [], [], [], "uniform")


class RetriesMemory(_Tries):
    forgives = (MemoryError,)


class CatchesExceptions(_Tries):
    forgives = (Exception,)


class CatchesEverything(_Tries):
    forgives = (BaseException,)


@pytest.mark.parametrize(
    ("make", "kinds"),
    [
        (RetriesMemory, {"memory"}),
        (CatchesExceptions, {"exception", "memory", "double"}),
        (CatchesEverything, {"exception", "memory", "hang", "double"}),
    ],
)
def test_a_worker_that_swallows_one_kind_is_found_by_that_kind(
    make: MakeWorker, kinds: set[str]
) -> None:
    """If this fails, one kind of failure stands for all of them, and the others are not tried."""
    found = {}
    for kind in kinds_at("draft"):
        try:
            check(run_of("draft", kind), make)
        except Divergence as divergence:
            found[kind] = divergence.signature
    assert found == dict.fromkeys(kinds, ("exception", "fault"))


class HidesTheFirst(Model):
    """What its clean-up raises is all that anybody sees."""

    def forward(self, batch: Batch) -> StepResult:
        try:
            return super().forward(batch)
        except INJECTED:
            self.at("cleanup")
            raise


def test_a_clean_up_that_hides_the_first_error_is_found() -> None:
    """If this fails, whoever reads the log looks for the wrong mistake."""
    with pytest.raises(Divergence) as info:
        check(run_of("seed", "double"), HidesTheFirst)
    assert (info.value.field, info.value.expected) == ("fault", "the fault at 'seed'")
    assert info.value.found == "a later one, at cleanup"
    assert check(run_of("seed", "exception"), HidesTheFirst).steps == 7


class ClearsInAnException(Model):
    """After what is no `Exception` it forgets nothing of the probabilities, and keeps the slot."""

    def forward(self, batch: Batch) -> StepResult:
        owned = dict(self.slots.owned)
        try:
            return super().forward(batch)
        except (InjectedFault, BatchError):
            raise
        except BaseException:
            self.slots.owned = owned if owned != self.slots.owned else {}
            raise


def test_a_worker_that_is_right_after_exceptions_alone_is_found_by_a_hang() -> None:
    """If this fails, being interrupted by a timer is not tried."""
    assert check(run_of("publish", "exception"), ClearsInAnException).steps == 7
    with pytest.raises(Divergence) as info:
        check(run_of("publish", "hang"), ClearsInAnException)
    assert info.value.field == "slots"
