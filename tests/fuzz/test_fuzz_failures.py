"""What happens to a failing case: replayed, shrunk, told, saved, and nothing lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from batches import small

from draftproof.fuzz.cases import EVENTS_PER_CASE, Subject, seeded_case
from draftproof.fuzz.failures import REPLAYS, examine, save_new
from draftproof.reference.config import checked
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Collaborators, Config, ConfigError, WorkerState
from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import ImplementationError
from draftproof.sim.events import Step, Submit
from draftproof.sim.lockstep import MakeWorker
from draftproof.sim.run import replay
from draftproof.sim.traces import Trace, cut, load

EVENTS = (Submit(0, prompt=3, limit=30), Step(), Step(accepts=(2,)), Step(), Step())
TRACE = Trace(checked(small(num_stages=2)), EVENTS)


class Wrong(Model):
    """Miscounts from the second forward on."""

    def state(self) -> WorkerState:
        state = super().state()
        return replace(state, draft_seq=self.draft_seq + (self.draft_seq > 1))


def every(n: int) -> MakeWorker:
    """Only every n-th worker that is made is wrong, the first one among them."""
    made = 0

    def make(config: Config, lent: Collaborators) -> Model:
        nonlocal made
        made += 1
        return (Wrong if made % n == 1 % n else Model)(config, lent)

    return make


def first(subject: Subject) -> Divergence:
    found = subject.failure(TRACE)
    assert found is not None
    return found


def test_a_failure_is_replayed_ten_times_and_then_shrunk() -> None:
    """If this fails, the verdict does not say how reliably it fails, or the trace is not small."""
    subject = Subject(Wrong)
    failure = examine(subject, TRACE, first(subject))
    assert (failure.fails, failure.replays) == (REPLAYS, REPLAYS) == (10, 10)
    assert failure.trace.events == (Step(), Step())
    assert failure.trace.failure == ("comparison", "draft_seq")
    assert failure.divergence == subject.failure(failure.trace)
    assert failure.lines(None)[-2:] == [
        "fails        10 of 10 replays",
        "shrunk       from 5 events",
    ]


@pytest.mark.parametrize(("n", "fails", "tries"), [(2, 5, 6), (3, 3, 11)])
def test_a_failure_that_comes_and_goes_is_counted_and_shrunk_with_more_tries(
    n: int, fails: int, tries: int
) -> None:
    """If this fails, a flaky failure stays as long as it was, or shrinks to what never fails."""
    subject = Subject(every(n))
    failure = examine(subject, TRACE, first(subject))
    assert (failure.fails, failure.replays, failure.tries) == (fails, 10, tries)
    assert failure.trace.events == (Step(), Step())
    assert failure.trace.failure == ("comparison", "draft_seq")
    assert any(subject.failure(failure.trace) for _ in range(n))
    assert failure.lines(None)[-2:] == [
        f"fails        {fails} of 10 replays",
        f"shrunk       from 5 events, with {tries} tries each",
    ]


def test_a_failure_that_comes_and_goes_and_cannot_be_shrunk_tells_its_tries() -> None:
    """If this fails, nobody knows how much "not smaller" is worth of a flaky failure."""
    small = examine(Subject(Wrong), TRACE, Divergence("comparison", "draft_seq")).trace
    subject = Subject(every(3))
    found = subject.failure(small)
    assert found is not None
    failure = examine(subject, small, found)
    assert failure.trace == small
    assert failure.lines(None)[-2:] == [
        "fails        3 of 10 replays",
        "tries        11 for each smaller trace",
    ]


def test_a_failure_that_never_comes_again_is_left_whole() -> None:
    """If this fails, a failure that nobody can show is reported with a wrong trace."""
    subject = Subject(every(11))
    failure = examine(subject, TRACE, first(subject))
    assert (failure.fails, failure.replays) == (0, 10)
    assert failure.trace.events == EVENTS
    assert failure.trace.failure == ("comparison", "draft_seq")
    assert failure.lines(None)[-1] == "fails        0 of 10 replays"


def test_a_failure_that_vanishes_while_it_is_shrunk_is_still_told() -> None:
    """If this fails, a flaky failure ends in a traceback instead of a report."""
    made = 0

    def make(config: Config, lent: Collaborators) -> Model:
        nonlocal made
        made += 1
        return (Wrong if made <= 12 else Model)(config, lent)

    subject = Subject(make)
    failure = examine(subject, TRACE, first(subject))
    assert failure.fails == 10
    assert failure.divergence.signature == ("comparison", "draft_seq")
    assert failure.trace.events == EVENTS[:3]  # cut behind the failure, then nothing fails


def test_another_failure_does_not_count_as_the_same() -> None:
    """If this fails, "10 of 10" is said of ten different failures."""
    subject = Subject(Wrong)
    other = Divergence("comparison", "windows")
    assert examine(subject, TRACE, other).fails == 0


@pytest.mark.parametrize("error", [ConfigError("two stages only"), ImplementationError("no")])
def test_a_configuration_that_the_factory_refuses_is_no_smaller_failure(error: Exception) -> None:
    """If this fails, shrinking the configuration ends the command before it has told anything."""

    def make(config: Config, lent: Collaborators) -> Model:
        if config.num_stages != 2:
            raise error
        return Wrong(config, lent)

    subject = Subject(make)
    failure = examine(subject, TRACE, first(subject))
    assert failure.trace.events == (Step(), Step())
    assert failure.trace.config == Config(1, 1, 2, 1, vocab_size=2, block_size=1)


def clock(monkeypatch: pytest.MonkeyPatch, seconds_a_look: float) -> None:
    """Time passes only when somebody looks."""
    now = 0.0

    def look() -> float:
        nonlocal now
        now += seconds_a_look
        return now

    monkeypatch.setattr("draftproof.fuzz.failures.monotonic", look)


def test_slow_failures_are_replayed_and_shrunk_as_long_as_patience_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If this fails, a worker that hangs for a minute a step keeps its user waiting for hours."""
    clock(monkeypatch, 10)
    subject = Subject(Wrong)
    failure = examine(subject, TRACE, first(subject), patience=110)
    assert failure.late
    assert (failure.fails, failure.replays) == (3, 3)
    assert 2 <= len(failure.trace.events) < 5
    assert failure.divergence == subject.failure(failure.trace)
    assert "not minimal  time for shrinking ran out" in failure.lines(None)


def test_without_any_patience_a_failure_is_replayed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a slow failure is not replayed at all, and the verdict is about nothing."""
    clock(monkeypatch, 1000)
    subject = Subject(Wrong)
    failure = examine(subject, TRACE, first(subject))
    assert (failure.fails, failure.replays, failure.late) == (1, 1, True)
    assert failure.trace.events == EVENTS


def test_nothing_saved_is_ever_overwritten(tmp_path: Path) -> None:
    """If this fails, a second failure of the same kind destroys the first."""
    one, two, three = (cut(TRACE, EVENTS[:n]) for n in (1, 2, 3))
    assert save_new(one, tmp_path, "t") == tmp_path / "t.jsonl"
    assert save_new(two, tmp_path, "t") == tmp_path / "t-1.jsonl"
    assert save_new(three, tmp_path, "t") == tmp_path / "t-2.jsonl"
    assert save_new(two, tmp_path, "t") == tmp_path / "t-1.jsonl", "it is there already"
    assert [load(path) for path in sorted(tmp_path.iterdir())] == [two, three, one]


def test_a_case_is_the_same_whenever_it_is_asked_for() -> None:
    """If this fails, case and seed of a failure do not lead back to it."""
    once, again = seeded_case(3, 5), seeded_case(3, 5)
    assert (once.config, once.events) == (again.config, again.events)
    assert len(once.events) == EVENTS_PER_CASE
    others = [seeded_case(3, 6), seeded_case(4, 5)]
    assert all(other.events != once.events for other in others)
    run = replay(once.config, once.events)
    assert run.steps == once.steps
