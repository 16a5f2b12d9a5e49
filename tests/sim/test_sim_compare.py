"""What is compared after a step: each field by itself, and what is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from batches import small
from schedules import BUSY, batches, play
from spoilers import plain, spoiled

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Config, StepResult, WorkerState
from draftproof.sim.compare import describe_row
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import AnyEvent, Step, Submit
from draftproof.sim.lockstep import MakeWorker, check

CONFIG = small(max_num_requests=4, num_stages=2)
STEP, EVENT = 3, 6
"""The mixed batch of BUSY: rows are requests 3 (a context), 1, 2; these own slots 2, 1, 0."""


def bump(field: str, *path: int, by: Any = 1) -> Callable[[Any], None]:
    """Change one number of a nested list."""

    def change(answer: Any) -> None:
        place = getattr(answer, field)
        *outer, last = path
        for index in outer:
            place = place[index]
        place[last] += by

    return change


def put(field: str, value: Any) -> Callable[[Any], None]:
    return lambda answer: setattr(answer, field, value)


def caught(make: MakeWorker, config: Config = CONFIG, events: Any = BUSY) -> Divergence:
    with pytest.raises(Divergence) as info:
        check(play(config, *events), make)
    return info.value


def where(divergence: Divergence) -> dict[str, Any]:
    """Whatever the divergence says about the place."""
    names = ("request", "incarnation", "row", "slot", "stage", "frame")
    return {n: v for n in names if (v := getattr(divergence, n)) is not None}


def test_the_schedule_is_what_the_cases_below_take_it_for() -> None:
    """If this fails, the other tests here look at the wrong rows and slots."""
    run = play(CONFIG, *BUSY)
    assert check(run, Model).steps == 6
    mixed = run.steps[STEP]
    assert (mixed.event, len(mixed.batch.contexts)) == (EVENT, 1)
    assert [row.request_id for row in mixed.batch.rows] == [3, 1, 2]
    assert dict(mixed.state.slots or {}) == {2: 0, 1: 1, 3: 2}
    assert mixed.result is not None
    assert mixed.result.new_tokens_lens == [1, 4, 1]


RESULTS = [
    ("new_tokens_lens", bump("new_tokens_lens", 1, by=-1), 1, 1),
    ("new_tokens", bump("new_tokens", 2, 0), 2, 2),
    ("new_tokens", bump("new_tokens", 1, 3), 1, 1),
    ("new_tokens", bump("new_tokens", 0, 0), 0, 3),
    ("next_draft_tokens", bump("next_draft_tokens", 2, 1), 2, 2),
    ("next_draft_tokens", bump("next_draft_tokens", 0, 2), 0, 3),
    ("next_new_tokens", bump("next_new_tokens", 1, 0), 1, 1),
    ("next_new_tokens", bump("next_new_tokens", 2, 3), 2, 2),
]


@pytest.mark.parametrize(("field", "change", "row", "request_id"), RESULTS)
def test_each_part_of_a_result_is_compared(
    field: str, change: Callable[[StepResult], object], row: int, request_id: int
) -> None:
    """If this fails, a wrong answer passes, or the report names another row or request."""
    divergence = caught(spoiled(STEP, result=change))
    assert divergence.signature == ("comparison", field)
    assert (divergence.step, divergence.event) == (STEP, EVENT)
    assert where(divergence) == {"row": row, "request": request_id, "incarnation": request_id}
    assert divergence.expected != divergence.found


@pytest.mark.parametrize(
    ("field", "change", "expected", "found"),
    [
        ("window_source", put("window_source", "windows"), "uniform", "windows"),
        ("new_tokens_lens", lambda r: r.new_tokens_lens.append(1), "3 rows", "4 rows"),
        ("new_tokens", lambda r: r.new_tokens.pop(), "3 rows", "2 rows"),
        ("new_tokens", lambda r: r.new_tokens.append([1]), "3 rows", "4 rows"),
        ("next_draft_tokens", lambda r: r.next_draft_tokens.pop(), "3 rows", "2 rows"),
        ("next_draft_tokens", lambda r: r.next_draft_tokens.append([]), "3 rows", "4 rows"),
        ("next_new_tokens", lambda r: r.next_new_tokens.pop(), "3 rows", "2 rows"),
        ("next_draft_tokens", lambda r: r.next_draft_tokens[1].append(0), None, None),
    ],
)
def test_a_result_of_the_wrong_shape_is_told(
    field: str, change: Callable[[StepResult], object], expected: Any, found: Any
) -> None:
    """If this fails, missing or extra rows pass, or end the check with a traceback."""
    divergence = caught(spoiled(STEP, result=change))
    assert divergence.signature == ("comparison", field)
    if expected is not None:
        assert (divergence.expected, divergence.found) == (expected, found)


def reverse_slots(state: WorkerState) -> None:
    state.slots = dict(reversed(list((state.slots or {}).items())))


STATES = [
    ("slots", reverse_slots, {}),
    ("slots", put("slots", {2: 0, 1: 1, 3: 3}), {}),
    ("free_slots", put("free_slots", []), {}),
    ("batch_to_slot", bump("batch_to_slot", 1), {"row": 1, "request": 1, "incarnation": 1}),
    ("ctx_len", bump("ctx_len", 1), {"slot": 1, "request": 1, "incarnation": 1}),
    ("ctx_len", bump("ctx_len", 3), {"slot": 3}),
    ("ctx_len", put("ctx_len", [0]), {"slot": 0, "request": 2, "incarnation": 2}),
    ("ctx_len", bump("ctx_len", 4, by=5), {"slot": 4}),
    ("ctx_len", bump("ctx_len", 4, by=-1), {"slot": 4}),
    ("valid_len", bump("valid_len", 0, by=-1), {"slot": 0, "request": 2, "incarnation": 2}),
    ("valid_len", bump("valid_len", 4, by=9), {"slot": 4}),
    ("initialized", put("initialized", [False] * 5), {"slot": 0, "request": 2, "incarnation": 2}),
    ("confidence_logits", bump("confidence_logits", 0, 1), {
        "slot": 0, "request": 2, "incarnation": 2,
    }),
    ("confidence_logits", bump("confidence_logits", 5, 0), {"slot": 5}),
    ("confidence_stamp", bump("confidence_stamp", 1), {"slot": 1, "request": 1, "incarnation": 1}),
    ("confidence_stamp", bump("confidence_stamp", 5), {"slot": 5}),
    ("draft_seq", put("draft_seq", 99), {}),
]  # fmt: skip


@pytest.mark.parametrize(("field", "change", "place"), STATES)
def test_each_part_of_a_state_is_compared(
    field: str, change: Callable[[WorkerState], object], place: dict[str, int]
) -> None:
    """If this fails, a wrong state passes, or the report names another slot or request."""
    divergence = caught(spoiled(STEP, state=change))
    assert divergence.signature == ("comparison", field)
    assert (divergence.step, divergence.event) == (STEP, EVENT)
    assert where(divergence) == place


def test_a_wrong_frame_is_named_with_whose_row_it_is() -> None:
    """If this fails, a misplaced hidden row is not recognised, or reported at another frame."""
    run = play(CONFIG, *BUSY)
    state = plain(run.steps[STEP].state)
    newest = state.windows[1][1][-1]

    def swap(shown: WorkerState) -> None:
        shown.windows[1][1][2] = newest

    divergence = caught(spoiled(STEP, state=swap))
    assert divergence.signature == ("comparison", "windows")
    assert where(divergence) == {
        "slot": 1,
        "request": 1,
        "incarnation": 1,
        "stage": 1,
        "frame": 4,  # of 2 .. 9
    }
    assert (divergence.expected, divergence.found) == (state.windows[1][1][2], newest)
    assert divergence.whose == (
        "expected incarnation 1, position 3, fed in step 1; "
        "found incarnation 1, position 8, fed in step 3"
    )


@pytest.mark.parametrize(
    ("change", "expected", "found"),
    [
        (lambda s: s.windows[1][0].pop(), "8 frames", "7 frames"),
        (lambda s: s.windows[3][1].append([0] * 7), "0 frames", "1 frames"),
        (lambda s: s.windows[1].append(s.windows[1][0]), "2 stages", "3 stages"),
        (lambda s: s.windows[1].pop(), "2 stages", "1 stages"),
    ],
)
def test_a_window_of_the_wrong_shape_is_told(
    change: Callable[[WorkerState], object], expected: str, found: str
) -> None:
    """If this fails, missing or extra frames or stages pass, or end in a traceback."""
    divergence = caught(spoiled(STEP, state=change))
    assert divergence.signature == ("comparison", "windows")
    assert (divergence.expected, divergence.found) == (expected, found)


SAMPLED = small(use_rejection_sampling=True, vocab_size=6)
SAMPLES: tuple[AnyEvent, ...] = (
    Submit(0, prompt=2, limit=30, sampled=True),
    Submit(1, prompt=2, limit=30),
    Step(),
    Step(),
)


def test_draft_probabilities_are_compared_where_they_were_written() -> None:
    """If this fails, wrong probabilities pass until they happen to change a token."""
    divergence = caught(spoiled(1, state=bump("draft_probs", 1, 2, 0)), SAMPLED, SAMPLES)
    assert divergence.signature == ("comparison", "draft_probs")
    assert where(divergence) == {"slot": 1, "request": 2, "incarnation": 2}
    unset = spoiled(1, state=lambda s: s.draft_probs[2].append([9.0] * 6))
    assert check(play(SAMPLED, *SAMPLES), unset).steps == 2


IGNORED: dict[str, Callable[[WorkerState], object]] = {
    "contexts in batch_to_slot": bump("batch_to_slot", 0),
    "batch_to_slot beyond the batch": lambda s: s.batch_to_slot.append(7),
    "what the scratch row counts": bump("ctx_len", 4, by=4),
    "how much of the scratch row is visible": bump("valid_len", 4, by=8),
    "whether the scratch row has a position": bump("initialized", 4, by=True),
    "the scratch row's window": lambda s: s.windows.append([[[1] * 7], []]),
    "the scratch row's confidences": bump("confidence_logits", 4, 0),
    "the scratch row's stamp": bump("confidence_stamp", 4),
}


@pytest.mark.parametrize("what", IGNORED)
def test_what_section_18_leaves_out_of_a_state_is_not_compared(what: str) -> None:
    """If this fails, a correct worker is called wrong."""
    assert check(play(CONFIG, *BUSY), spoiled(STEP, state=IGNORED[what])).steps == 6


def test_tokens_behind_the_count_are_not_compared() -> None:
    """If this fails, a worker must clear what it did not accept."""
    make = spoiled(STEP, result=lambda r: r.new_tokens[2].append(63))
    assert check(play(CONFIG, *BUSY), make).steps == 6


@pytest.mark.parametrize(
    ("events", "row"),
    [
        ((Step(),), 0),
        ((Submit(0, imported=True, limit=9), Step(graph=True)), 2),
    ],
)
def test_what_idle_and_padding_rows_propose_is_not_compared_but_what_they_keep_is(
    events: tuple[AnyEvent, ...], row: int
) -> None:
    """If this fails, a worker must guess what stands in the scratch row, or may lose rows."""
    config = small(graph_batch_sizes=(3,))
    assert len(batches(play(config, *events))[0].rows) == row + 1

    def propose(answer: StepResult) -> None:
        answer.next_draft_tokens[row] = [5, 6, 7]
        answer.next_new_tokens[row] = [4, 5, 6, 7]

    assert check(play(config, *events), spoiled(0, result=propose)).steps == 1
    kept = caught(spoiled(0, result=bump("new_tokens", row, 0)), config, events)
    assert (kept.field, kept.row) == ("new_tokens", row)
    wild = caught(spoiled(0, result=bump("next_draft_tokens", row, 1, by=-9)), config, events)
    assert (wild.field, wild.expected) == ("next_draft_tokens", "tokens within 0..63")
    lost = caught(spoiled(0, result=lambda r: r.next_draft_tokens.pop()), config, events)
    assert (lost.field, lost.found) == ("next_draft_tokens", f"{row} rows")


def test_a_row_is_described_by_what_it_says_about_itself() -> None:
    """If this fails, the report attributes a hidden row to somebody else."""
    assert describe_row([5, 1, 3, 2, 9, 0, 1]) == "incarnation 133, position 259, fed in step 9"
    assert describe_row([0] * 7) == "nobody: a cleared place"
    assert describe_row([float("nan")] * 7) == "nobody: a place that was never written"
    assert describe_row([-128] * 7) == "nobody: a place that was never written"
