"""What a campaign says that it has exercised, counted by hand."""

from __future__ import annotations

from collections import Counter

import pytest
from batches import small
from schedules import BUSY, play

from draftproof.fuzz.summary import Summary, returns
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Config
from draftproof.sim.events import AnyEvent, Cancel, Step, Submit, Warmup
from draftproof.sim.lockstep import Checked, check


def summary(config: Config, *events: AnyEvent) -> Summary:
    run, total = play(config, *events), Summary()
    total.add(run, check(run, Model))
    return total


@pytest.mark.parametrize(
    ("history", "count"),
    [
        ([], 0),
        ([0, 0, 3], 0),
        ([3, 0], 0),
        ([3, 0, 3], 1),
        ([3, 0, 0, 0, 1], 1),
        ([3, 3, 2], 0),
        ([0, 2, 0, 3, 3, 0, 1, 0], 2),
        ([1, 0, 1, 0, 1], 2),
    ],
)
def test_returns_count_positive_zero_positive(history: list[int], count: int) -> None:
    """If this fails, a campaign that never comes back from zero drafts says that it does."""
    assert returns(history) == count


def test_steps_requests_and_accepted_drafts_are_counted() -> None:
    """If this fails, the summary says that something was exercised which was not, or too little."""
    total = summary(small(), *BUSY)
    assert (total.cases, total.steps, total.requests) == (1, 6, 3)
    assert (total.mixed, total.warmups, total.resets, total.failed_steps) == (3, 1, 1, 0)
    assert total.transitions == {(3, 3): 4 + 4 + 2}
    assert total.accepted == {0: 2, 1: 4, 2: 3, 3: 1}
    assert (total.ragged, total.sampled, total.padding_rows, total.idle_steps) == (0, 0, 0, 0)


def test_changing_lengths_are_counted_per_request() -> None:
    """If this fails, one request's steps count as another one's transition."""
    total = summary(
        small(),
        Submit(0, limit=40, imported=True),
        Step(),
        Step(draft_len=0),
        Submit(1, limit=40, imported=True),
        Step(draft_len=2),
        Step(draft_len=0),
        Step(draft_len=1),
    )
    assert total.transitions == {(3, 0): 1, (0, 2): 1, (2, 0): 2, (0, 1): 2}
    assert total.returns == 3


def test_who_left_and_came_back_is_counted() -> None:
    """If this fails, reuse of slots and ids, or ways to leave, are counted wrongly."""
    total = summary(
        small(max_num_requests=1),
        Submit(0, limit=1),
        Step(),
        Submit(1, limit=9),
        Step(),
        Cancel(1),
        Submit(2, limit=9, same_id=True),
        Step(),
        Step(fault="accept"),
        Step(),
    )
    assert total.departures == {"finished": 1, "cancelled": 1, "failed": 1}
    assert (total.same_ids, total.slot_reuses) == (1, 2)
    assert (total.failed_steps, total.idle_steps) == (1, 1)
    assert total.accepted == {}


def test_a_failed_step_accepts_nothing() -> None:
    """If this fails, drafts of a step whose results nobody got count as accepted."""
    total = summary(small(), Submit(0, limit=9, imported=True), Step(accepts=(2,), fault="publish"))
    assert (total.failed_steps, total.accepted) == (1, {})


def test_padding_ragged_and_sampled_steps_are_counted() -> None:
    """If this fails, a mode that is never exercised is said to be."""
    imported = [Submit(i, limit=40, imported=True, sampled=True) for i in range(2)]
    padded = summary(small(graph_batch_sizes=(3,)), *imported, Step(graph=True), Step())
    assert (padded.padding_rows, padded.idle_steps) == (1, 0)
    graphs = summary(small(graph_batch_sizes=(3,)), *imported, Step(graph=True), Step(),
                     Warmup(rows=3, capture=True), Warmup(capture=False))  # fmt: skip
    assert (graphs.replays, graphs.captures, graphs.warmups) == (1, 1, 2)
    assert graphs.padding_rows == 1
    told = "1 steps in mode replay, 1 in mode capture; by a graph if the worker has them"
    assert graphs.lines()[-2] == f"graph modes      {told}"
    ragged = summary(small(confidence_scheduling=True), *imported, Step(windows=(2,)), Step())
    assert (ragged.ragged, ragged.sampled) == (1, 0)
    sampled = summary(small(use_rejection_sampling=True), *imported, Step(), Warmup(), Step())
    assert (sampled.sampled, sampled.ragged) == (2, 0)


def test_what_was_not_checked_is_not_counted_as_exercised() -> None:
    """If this fails, a case that ended early counts whole."""
    run, total = play(small(), *BUSY), Summary()
    total.add(run, Checked(steps=2, not_checked={"windows"}, faults_without_seam=1))
    assert (total.steps, total.requests, total.mixed, total.warmups) == (2, 2, 1, 0)
    assert total.accepted == {0: 1, 1: 1, 2: 1}
    total.add(run, Checked(steps=0, not_checked={"draft_seq"}, faults_without_seam=1))
    assert (total.cases, total.steps, total.requests) == (2, 2, 2)
    assert total.not_checked == {"windows", "draft_seq"}
    assert total.faults_without_seam == 2


def test_the_summary_as_people_read_it() -> None:
    """If this fails, the text has changed: see that it still says everything."""
    total = summary(small(), *BUSY)
    total.faults_without_seam = 1234
    total.not_checked = {"windows", "draft_seq"}
    total.refused = Counter({"one stage only": 2})
    total.transitions.update({(3, 0): 2000, (0, 1): 1, (1, 3): 1, (3, 2): 1})
    assert total.lines() == [
        "cases            1",
        "steps            6: 3 mixed, 0 ragged, 0 sampled, 1 warm-ups, 0 failed, 0 idle, 0 late",
        "requests         3: none departed; 0 under an id used before, 1 reset",
        "draft lengths    5 different transitions r -> r': "
        "1 down, 1 from zero, 10 same, 2,000 to zero, 1 up",
        "                 0 times positive -> zero -> positive",
        "accepted drafts  0: 2  1: 4  2: 3  3: 1",
        "drafts           18 drafted, 18 verified, 9 accepted; 0 verified for nobody",
        "                 accepted by position  1: 83%  2: 50%  3: 17%",
        "                 mean acceptance length 2.50",
        "tokens           26 emitted in 13 results, 0 dropped behind an end, "
        "4 placeholders confirmed",
        "slots            0 reused; 0 padding rows",
        "not checked      draft_seq, windows",
        "                 1,234 faults at seams that the implementation never calls; "
        "their cases end there",
        "                 2 cases that the factory refused: one stage only",
    ]


def test_an_empty_summary_can_be_read_too() -> None:
    """If this fails, a campaign in which nothing happened ends with a traceback."""
    lines = Summary().lines()
    assert lines[2] == "requests         0: none departed; 0 under an id used before, 0 reset"
    assert lines[-1] == "not checked      nothing"
