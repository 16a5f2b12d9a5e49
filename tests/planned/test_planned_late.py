"""Late steps: a batch is built before the results of the last one have been handed over."""

from __future__ import annotations

import pytest
from batches import small
from schedules import delivered, departed, generations, ids, output, play, reserved

from draftproof.fuzz.cases import Subject
from draftproof.fuzz.summary import Summary
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Config
from draftproof.sim.events import AnyEvent, Cancel, Pause, Step, Submit
from draftproof.sim.journal import Answered, Delivered, Fed
from draftproof.sim.lockstep import check
from draftproof.sim.run import Run

LATE = Step(late=True, accepts=(2,))
ONE = Submit(0, prompt=4, limit=40, imported=True)


def judged(config: Config, *events: AnyEvent) -> Run:
    """The run, which every oracle has passed, with the reference model behind the door."""
    run = play(config, *events)
    Subject(Model).judge(run)
    return run


def test_a_late_batch_goes_on_where_the_worker_is() -> None:
    """If this fails, a request is fed tokens twice, or at positions of the step before."""
    run = judged(small(), ONE, Step(accepts=(2,)), LATE, LATE)
    assert [generations(step.batch) for step in run.steps] == [
        [(1, 3, 0)],
        [(1, 6, 3)],
        [(1, 9, 3)],
    ]
    assert delivered(run) == [(0, 1, 3), (1, 1, 3), (2, 1, 3)]
    same = judged(small(), ONE, Step(accepts=(2,)), Step(accepts=(2,)), Step(accepts=(2,)))
    assert output(run, 1) == output(same, 1)


def test_results_are_handed_over_once_the_next_step_is_under_way() -> None:
    """If this fails, nothing overlaps, or a result waits for ever."""
    run = judged(small(), ONE, Step(), LATE, Step())
    kinds = [type(e) for e in run.journal.entries if isinstance(e, Fed | Delivered | Answered)]
    late = [Fed, Delivered, Answered]
    assert kinds == [Fed, Answered, *late, Delivered, Fed, Answered, Delivered]


def test_a_prompt_in_flight_decodes_in_a_late_step() -> None:
    """If this fails, the last chunk of a prompt is fed again, or its request sits out a step."""
    run = judged(small(), Submit(0, prompt=5, limit=9), Step(chunk=3), LATE, LATE, Step())
    rows = [[type(row).__name__ for row in step.batch.rows] for step in run.steps]
    assert rows == [["ContextRow"], ["ContextRow"], ["GenerationRow"], ["GenerationRow"]]
    assert generations(run.steps[2].batch) == [(1, 5, 3)]


def test_whoever_ended_unseen_is_in_one_more_batch_and_gets_nothing_of_it() -> None:
    """If this fails, tokens behind a limit are emitted, or a device has to know of limits."""
    run = judged(small(), Submit(0, prompt=4, limit=2, imported=True), Step(), LATE, LATE, Step())
    assert ids(run) == [[1], [1], [1], [0]]
    assert delivered(run) == [(0, 1, 1), (1, 1, 1)]
    assert departed(run) == [(1, "finished")]


def test_whoever_was_cancelled_is_not_fed_and_its_successor_gets_its_own() -> None:
    """If this fails, a late result reaches the next request under the same id."""
    again = Submit(1, prompt=4, limit=40, imported=True, same_id=True)
    run = judged(small(), ONE, Step(), Cancel(0), again, LATE, Step())
    assert ids(run) == [[1], [1], [1]]
    assert delivered(run) == [(1, 2, 3), (2, 2, 1)]


def test_a_pause_drops_drafts_that_come_late() -> None:
    """If this fails, drafts that were dropped when a request was left out come back."""
    other = Submit(1, prompt=4, limit=40, imported=True)
    run = judged(small(), ONE, other, Step(), Pause(0), LATE, Step())
    assert ids(run) == [[1, 2], [2], [1, 2]]
    assert [row[2] for row in generations(run.steps[-1].batch)] == [0, 3]


def test_a_host_reserves_for_what_it_does_not_know_yet() -> None:
    """If this fails, a step in flight writes beyond what was reserved (I17)."""
    run = judged(small(), ONE, Step(), LATE, Step())
    assert reserved(run)[:2] == [(4 + 3,), (4 + 3 + 4,)]
    kept = [entry.kept for entry in run.journal.entries if isinstance(entry, Delivered)]
    assert kept == [5 + 3, 8, 9]  # at first the step in flight may still write so far


def test_a_late_step_that_fails_takes_nothing_back() -> None:
    """If this fails, results that were there already are lost with a later step."""
    run = judged(small(), ONE, Step(), Step(late=True, fault="draft"), Step())
    assert delivered(run) == [(0, 1, 1)]
    assert departed(run) == [(1, "failed")]


@pytest.mark.parametrize("late", [False, True])
def test_late_steps_are_counted(late: bool) -> None:
    """If this fails, a campaign without any overlap says that it had some."""
    run, total = play(small(), ONE, Step(), Step(late=late)), Summary()
    total.add(run, check(run, Model))
    assert total.late == late
