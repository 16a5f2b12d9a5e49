"""Answers that cannot be compared at all: which field is misshapen, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from batches import small
from schedules import play
from spoilers import spoiled

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Batch, StepResult, WorkerState
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import AnyEvent, Step, Submit
from draftproof.sim.lockstep import MakeWorker, check
from draftproof.sim.shapes import RESULT, STATE

START: tuple[AnyEvent, ...] = (Submit(0, prompt=3, limit=30), Step(), Step(), Step(accepts=(2,)))


def caught(make: MakeWorker, *events: AnyEvent, **config: Any) -> Divergence:
    with pytest.raises(Divergence) as info:
        check(play(small(**config), *(events or START)), make)
    return info.value


def answering(change: Callable[[StepResult], Any]) -> MakeWorker:
    """The model, but what it returns is changed."""

    class Answering(Model):
        def forward(self, batch: Batch) -> StepResult:
            answer: StepResult = change(super().forward(batch))
            return answer

    return Answering


class Lacks:
    """What has only one field, or fails when it is asked for another."""

    window_source = "uniform"

    @property
    def new_tokens_lens(self) -> list[int]:
        raise RuntimeError("the stream is broken")


RESULTS = [
    (
        lambda answer: None,
        "window_source",
        "AttributeError: 'NoneType' object has no attribute 'window_source'",
    ),
    (lambda answer: Lacks(), "new_tokens_lens", "RuntimeError: the stream is broken"),
    (lambda answer: replace(answer, new_tokens_lens=None), "new_tokens_lens", "NoneType None"),
    (
        lambda answer: replace(answer, new_tokens_lens=torch.tensor([1.0])),
        "new_tokens_lens",
        "float 1.0 at [0]",
    ),
    (lambda answer: replace(answer, new_tokens=3), "new_tokens", "int 3"),
    (
        lambda answer: replace(answer, new_tokens=torch.tensor(answer.new_tokens)[0]),
        "new_tokens",
        "int 42 at [0]",
    ),
    (lambda answer: replace(answer, next_draft_tokens=7), "next_draft_tokens", "int 7"),
    (lambda answer: replace(answer, next_new_tokens=None), "next_new_tokens", "NoneType None"),
]


@pytest.mark.parametrize(("change", "field", "found"), RESULTS)
def test_a_result_that_cannot_be_read_names_the_field(
    change: Callable[[StepResult], Any], field: str, found: str
) -> None:
    """If this fails, a worker that returns the wrong thing learns "'int' is not subscriptable"."""
    divergence = caught(answering(change))
    assert divergence.signature == ("comparison", field)
    assert (divergence.expected, divergence.found) == (RESULT[field][2], found)
    assert (divergence.step, divergence.event) == (0, 1)


STATES: list[tuple[str, Any, str]] = [
    ("slots", [1], "list [1]"),
    ("free_slots", 3, "int 3"),
    ("attention_rows", 3, "int 3"),
    ("batch_to_slot", 3, "int 3"),
    ("ctx_len", 3, "int 3"),
    ("valid_len", torch.tensor(3), "int 3"),
    ("initialized", True, "bool True"),
    ("windows", 3, "int 3"),
    ("windows", [[3]] * 3, "int 3 at [0][0]"),
    ("windows", [[None]] * 3, "NoneType None at [0][0]"),
    ("confidence_logits", 3.5, "float 3.5"),
    ("confidence_stamp", 3, "int 3"),
    ("draft_seq", torch.tensor([1, 1]), "list [1, 1]"),
]


@pytest.mark.parametrize(("field", "value", "found"), STATES)
def test_a_state_that_cannot_be_read_names_the_field(field: str, value: Any, found: str) -> None:
    """If this fails, whoever writes a door has to guess which of fifteen fields is wrong."""
    divergence = caught(spoiled(1, state=lambda state: setattr(state, field, value)))
    assert divergence.signature == ("comparison", field)
    assert (divergence.expected, divergence.found) == (STATE[field][2], found)
    assert divergence.step == 1


def test_a_state_that_is_none_at_all() -> None:
    """If this fails, a door without its `return` is told so by a traceback."""

    class Forgets(Model):
        def state(self) -> WorkerState:
            nothing: Any = None
            return cast(WorkerState, nothing)

    divergence = caught(Forgets)
    assert divergence.signature == ("comparison", "slots")
    assert divergence.found == "AttributeError: 'NoneType' object has no attribute 'slots'"


SEQUENCES: list[tuple[str, Any, str, str]] = [
    ("token_counts", 3, STATE["token_counts"][2], "int 3"),
    ("prompt_seen", [[0] * 64], "3 sequence slots", "1 sequence slots"),
    ("grammar_depth", 3, STATE["grammar_depth"][2], "int 3"),
]


@pytest.mark.parametrize(("field", "value", "expected", "found"), SEQUENCES)
def test_so_do_fields_by_sequence_slot(field: str, value: Any, expected: str, found: str) -> None:
    """If this fails, these, which most doors do not show, are the ones that go unnamed."""
    make = spoiled(1, state=lambda state: setattr(state, field, value))
    divergence = caught(make, target_logits=True)
    assert divergence.signature == ("comparison", field)
    assert (divergence.expected, divergence.found) == (expected, found)


def test_so_do_probabilities() -> None:
    """If this fails, the same of p."""
    events = (Submit(0, prompt=3, limit=30, sampled=True), Step(), Step())
    make = spoiled(1, state=lambda state: setattr(state, "draft_probs", 3))
    divergence = caught(make, *events, use_rejection_sampling=True)
    assert divergence.signature == ("comparison", "draft_probs")
    assert (divergence.expected, divergence.found) == (STATE["draft_probs"][2], "int 3")


@pytest.mark.parametrize(("planned", "found"), [(None, "NoneType None"), (2, "int 2")])
def test_so_do_planned_windows(planned: Any, found: str) -> None:
    """If this fails, a `plan` that returns the wrong thing is not told what is expected of it."""

    class Plans(Model):
        def plan(self, batch: Batch) -> list[int]:
            super().plan(batch)
            answer: list[int] = planned
            return answer

    events = (Submit(0, prompt=3, limit=30), Step(), Step(), Step(age=1), Step(age=1))
    divergence = caught(Plans, *events, confidence_scheduling=True)
    assert divergence.signature == ("comparison", "verify_lens")
    assert (divergence.expected, divergence.found) == ("verify windows [G]", found)


def test_an_exception_of_another_kind_is_still_one() -> None:
    """If this fails, well-shaped answers are blamed for what went wrong elsewhere."""

    class Odd(int):
        def __ne__(self, other: object) -> bool:
            raise ZeroDivisionError("odd")

    divergence = caught(spoiled(1, state=lambda s: setattr(s, "draft_seq", Odd(2))))
    assert divergence.signature == ("exception", "ZeroDivisionError")
