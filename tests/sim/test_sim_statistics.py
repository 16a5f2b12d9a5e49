"""What an engine counts, by hand: drafted, verified, accepted, emitted, dropped."""

from __future__ import annotations

import pytest
from batches import small
from schedules import output, play

from draftproof.reference.vocabulary import Config
from draftproof.sim.events import AnyEvent, Cancel, Pause, Step, Submit
from draftproof.sim.grammars import end_token
from draftproof.sim.journal import Published
from draftproof.sim.run import Run
from draftproof.sim.statistics import Counts, Statistics

FIRST = Submit(0, limit=40, imported=True)  # its first block is of placeholders
RAGGED = small(confidence_scheduling=True)


def statistics(run: Run) -> Statistics:
    (published,) = (e.statistics for e in run.journal.entries if isinstance(e, Published))
    return published


def counts(*events: AnyEvent, config: Config | None = None) -> Counts:
    """Of a schedule in which request 0 is the only one."""
    told = statistics(play(config or small(), *events))
    assert told.requests in ({}, {1: told.total})
    return told.total


def test_an_accepted_run_counts_position_by_position() -> None:
    """If this fails, the acceptance of each position is not what an engine publishes."""
    total = counts(FIRST, Step(), Step(accepts=(2,)), Step(accepts=(0,)), Step(accepts=(3,)))
    assert total.drafted == total.verified == [3, 3, 3]
    assert total.accepted == [2, 2, 1]
    assert (total.results, total.emitted, total.guessed, total.dropped) == (4, 9, 0, 0)
    assert total.rates() == [2 / 3, 2 / 3, 1 / 3]
    assert total.acceptance_length() == 1 + 5 / 3


def test_placeholders_are_no_drafts() -> None:
    """If this fails, acceptance looks worse behind a pause, a prompt or steps without drafts."""
    for start in (
        (FIRST, Step(accepts=(2,))),
        (Submit(0, prompt=2, limit=40), Step(), Step(accepts=(2,))),
        (FIRST, Step(draft_len=0), Step(accepts=(2,))),
        (FIRST, Step(draft_len=0), Pause(0), Step(), Step(accepts=(2,))),
    ):
        total = counts(*start)
        assert total.drafted == total.verified == total.accepted == [0, 0, 0]
        assert total.guessed == 2
        assert total.emitted == total.results + 2
        assert total.rates() == [None, None, None]
        assert total.acceptance_length() is None


def test_where_r_has_grown_the_rest_are_placeholders() -> None:
    """If this fails, drafts that nobody made count as drafted, or accepted."""
    total = counts(FIRST, Step(draft_len=1), Step(draft_len=3, accepts=(3,)))
    assert total.drafted == total.verified == total.accepted == [1, 0, 0]
    assert (total.guessed, total.emitted) == (2, 5)


def test_a_ragged_window_verifies_fewer_than_were_drafted() -> None:
    """If this fails, what a window left out counts as rejected."""
    steps = Step(windows=(3,), accepts=(2,)), Step(windows=(1,), accepts=(3,)), Step(windows=(4,))
    total = counts(FIRST, Step(), *steps, config=RAGGED)
    assert total.drafted == [3, 3, 3]
    assert total.verified == [2, 2, 1]
    assert total.accepted == [1, 1, 0]
    assert (total.results, total.emitted) == (4, 6)


@pytest.mark.parametrize(("limit", "dropped"), [(3, 2), (4, 1), (5, 0)])
def test_tokens_behind_the_limit_are_accepted_and_dropped(limit: int, dropped: int) -> None:
    """If this fails, what nobody is given counts as emitted, or its drafts as rejected."""
    first = Submit(0, limit=limit, imported=True)
    total = counts(first, Step(), Step(accepts=(3,)))
    assert total.accepted == [1, 1, 1]
    assert (total.emitted, total.dropped) == (limit, dropped)


def test_tokens_behind_a_stop_are_accepted_and_dropped() -> None:
    """If this fails, the same is true of a stop token."""
    events = Step(), Step(accepts=(3,))
    tokens = output(play(small(), FIRST, *events), 1)
    assert tokens.index(tokens[2]) == 2
    total = counts(Submit(0, limit=40, imported=True, stop=tokens[2]), *events)
    assert total.accepted == [1, 1, 1]
    assert (total.emitted, total.dropped) == (3, 2)


def test_the_end_token_of_a_grammar_is_emitted() -> None:
    """If this fails, a guided request has another number of tokens than it was given."""
    config = small(target_logits=True, vocab_size=8)
    guided = Submit(0, limit=40, imported=True, grammar=1)
    run = play(config, guided, *[Step(accepts=(3,))] * 12)
    total, tokens = statistics(run).total, output(run, 1)
    assert tokens[-1] == end_token(8)
    assert total.emitted == len(tokens)
    assert total.emitted + total.dropped == sum(total.accepted) + total.guessed + total.results


def test_a_result_that_comes_late_counts_once() -> None:
    """If this fails, acceptance depends on whether steps overlap."""
    steps = [Step(), Step(accepts=(2,)), Step(accepts=(1,)), Step(accepts=(3,))]
    late = [Step(accepts=step.accepts, late=True) for step in steps]
    assert counts(FIRST, *late) == counts(FIRST, *steps)


@pytest.mark.parametrize("late", [False, True])
def test_a_result_that_reaches_nobody_counts_nowhere(late: bool) -> None:
    """If this fails, requests that are gone lower the acceptance of those that live."""
    ended = Submit(0, limit=2, imported=True)
    whole = FIRST, Step(), Step(accepts=(2,)), Cancel(0)
    told = statistics(play(small(), *((ended, Step(), Step(), Step(late=True)) if late else whole)))
    assert (told.total.results, told.total.emitted) == ((2, 2) if late else (1, 1))
    assert told.total.verified == ([1, 1, 1] if late else [0, 0, 0])
    assert told.wasted == 3


def test_a_lost_result_counts_nowhere() -> None:
    """If this fails, what never arrived counts as rejected."""
    told = statistics(play(small(), FIRST, Step(), Step(fault="result", accepts=(2,)), Step()))
    assert (told.total.results, told.total.verified, told.wasted) == (1, [0, 0, 0], 3)


def test_a_failed_step_counts_nowhere() -> None:
    """If this fails, a failure looks like a rejection, or like an acceptance."""
    told = statistics(play(small(), FIRST, Step(), Step(fault="accept", accepts=(2,))))
    assert (told.total.results, told.total.verified, told.wasted) == (1, [0, 0, 0], 0)


def test_requests_are_counted_apart_and_together() -> None:
    """If this fails, one request's acceptance is told as another one's."""
    second = Submit(1, limit=40, imported=True)
    told = statistics(play(small(), FIRST, second, Step(), Step(accepts=(3, 1))))
    assert told.requests[1].accepted == [1, 1, 1]
    assert told.requests[2].accepted == [1, 0, 0]
    both = Counts.none(3)
    for one in told.requests.values():
        both.include(one)
    assert both == told.total
