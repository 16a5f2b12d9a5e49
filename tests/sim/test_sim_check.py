"""`check`: an implementation beside the model, step by step, whatever it does."""

from __future__ import annotations

import signal
import threading
import time
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from batches import small
from schedules import BUSY, play
from spoilers import plain, spoiled

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Batch, StepResult, WorkerState
from draftproof.sim.compare import SHOWN
from draftproof.sim.divergence import Divergence
from draftproof.sim.engine import Engine
from draftproof.sim.events import AnyEvent, Cancel, Step, Submit
from draftproof.sim.journal import Entry, Published
from draftproof.sim.lockstep import MakeWorker, check
from draftproof.sim.run import Run, replay

START: tuple[AnyEvent, ...] = (Submit(0, prompt=3, limit=30), Step(), Step(), Step(accepts=(2,)))


def caught(make: MakeWorker, run: Run | None = None, timeout: float = 0.0) -> Divergence:
    with pytest.raises(Divergence) as info:
        check(run or play(small(), *START), make, timeout=timeout)
    return info.value


# ---- what the implementation is given ------------------------------------------------------------


class Keeps(Model):
    """Answers with what it kept of the last batch; right as long as nobody overwrites that."""

    kept = array("q", [0])
    copy = array("q", [0])

    def forward(self, batch: Batch) -> StepResult:
        answer = super().forward(batch)
        answer.new_tokens[0][0] += self.kept[0] - self.copy[0]
        self.kept, self.copy = batch.target_tokens, batch.target_tokens[:]
        return answer


class KeepsCopies(Keeps):
    def prepare(self, batch: Batch) -> None:
        self.kept = self.copy
        super().prepare(batch)


def test_a_worker_that_keeps_a_buffer_of_its_batch_is_caught() -> None:
    """If this fails, a worker may compute with memory that the engine has long overwritten."""
    divergence = caught(Keeps)
    assert (divergence.field, divergence.step) == ("new_tokens", 1)
    assert divergence.found[0] > 2**61
    assert check(play(small(), *START), KeepsCopies).steps == 3


class WritesIntoItsBatch(Model):
    def forward(self, batch: Batch) -> StepResult:
        answer = super().forward(batch)
        for name in ("drafts", "target_tokens", "hidden"):
            buffer = getattr(batch, name)
            buffer[:] = array(buffer.typecode, [1]) * len(buffer)
        return answer


def test_a_worker_that_writes_into_its_batch_hurts_nobody_else() -> None:
    """If this fails, a worker decides what is expected of it, or what the journal says."""
    run, untouched = play(small(), *BUSY), play(small(), *BUSY)
    assert check(run, WritesIntoItsBatch).steps == 6
    assert run.steps == untouched.steps
    assert run.journal == untouched.journal


def test_a_worker_is_made_once_and_is_alive_before_every_step() -> None:
    """If this fails, a worker loses its state, or the watchdog bites one that works."""
    made: list[Model] = []
    beats: list[int] = []

    def make(*given: Any) -> Model:
        made.append(Model(*given))
        return made[-1]

    run = play(small(), *BUSY)
    check(run, make, alive=lambda: beats.append(made[0].draft_seq))
    assert len(made) == 1
    assert made[0].config == run.config
    assert beats == [0, 1, 2, 2, 3, 4]  # the warm-up does not count


# ---- what the implementation may do wrong --------------------------------------------------------


def fails(name: str, error: BaseException) -> MakeWorker:
    """The model, but one of its methods raises in the second step."""

    class Failing(Model):
        calls = 0

        def fail(self) -> None:
            self.calls += 1
            if self.calls == 2:
                raise error

        def prepare(self, batch: Batch) -> None:
            super().prepare(batch)
            if name == "prepare":
                self.fail()

        def forward(self, batch: Batch) -> StepResult:
            if name == "forward":
                self.fail()
            return super().forward(batch)

        def state(self) -> WorkerState:
            if name == "state":
                self.fail()
            return super().state()

    return Failing


@pytest.mark.parametrize("method", ["prepare", "forward", "state"])
@pytest.mark.parametrize("error", [ValueError("too small"), SystemExit("too small")])
def test_an_exception_is_a_finding(method: str, error: BaseException) -> None:
    """If this fails, a worker's exception ends the check with a traceback, or with exit code 0."""
    divergence = caught(fails(method, error))
    assert divergence.signature == ("exception", type(error).__name__)
    assert (divergence.step, divergence.event) == (1, 2)
    assert divergence.found == "too small"
    assert divergence.__cause__ is error


def test_an_interrupt_is_not_a_finding() -> None:
    """If this fails, Ctrl-C is reported as the worker's fault."""
    with pytest.raises(KeyboardInterrupt):
        check(play(small(), *START), fails("forward", KeyboardInterrupt()))


class Sleeps(Model):
    def forward(self, batch: Batch) -> StepResult:
        if batch.step == 1:
            time.sleep(3600)
        return super().forward(batch)


class Spins(Model):
    def prepare(self, batch: Batch) -> None:
        while batch.step == 1:
            pass
        super().prepare(batch)


class NeverShows(Model):
    def state(self) -> WorkerState:
        while self.draft_seq == 2:
            pass
        return super().state()


@pytest.mark.parametrize("make", [Sleeps, Spins, NeverShows])
def test_a_hang_is_a_finding(make: MakeWorker) -> None:
    """If this fails, a worker that never returns stops a campaign for ever."""
    before = signal.getsignal(signal.SIGALRM)
    divergence = caught(make, timeout=0.5)
    assert divergence.signature == ("hang", "timeout")
    assert (divergence.step, divergence.event) == (1, 2)
    assert divergence.expected == "a step within 0.5 s"
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) is before


def test_without_a_time_limit_a_check_may_run_in_any_thread() -> None:
    """If this fails, drivers cannot check runs in threads: signals belong to the main one."""
    steps: list[int] = []
    run = play(small(), *START)
    thread = threading.Thread(target=lambda: steps.append(check(run, Model).steps))
    thread.start()
    thread.join()
    assert steps == [3]


# ---- what was not checked ------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("kind", [None, "use_rejection_sampling", "target_logits"])
def test_a_field_that_is_not_shown_is_reported_and_not_compared(
    name: str, kind: str | None
) -> None:
    """If this fails, the report keeps quiet about what was not checked."""

    class Hides(Model):
        def state(self) -> WorkerState:
            return replace(plain(super().state()), **{name: None})

    run = play(small(**{kind: True} if kind else {}), *BUSY)
    checked = check(run, Hides)
    assert checked.steps == 6
    wanted = ONLY_WITH.get(name, kind) == kind
    assert checked.not_checked == ({name} if wanted else set())


ONLY_WITH = {
    "draft_probs": "use_rejection_sampling",
    "token_counts": "target_logits",
    "prompt_seen": "target_logits",
    "grammar_depth": "target_logits",
}


# ---- oracles beside the comparison ---------------------------------------------------------------


class Watcher:
    """Remembers what it is shown; raises at one state."""

    def __init__(self, bad: int | None = None) -> None:
        self.entries: list[Entry] = []
        self.lengths: list[int] = []
        self.states: list[WorkerState | None] = []
        self.bad = bad

    def step(self, entries: Sequence[Entry], state: WorkerState | None) -> None:
        self.entries += entries
        self.lengths.append(len(self.entries))
        self.states.append(state)
        if len(self.states) - 1 == self.bad:
            raise Divergence("invariant", "I0", "good", "bad", request=2)


def test_a_watch_sees_every_fact_once_and_every_state() -> None:
    """If this fails, an invariant is computed from half of what happened."""
    run, watcher = play(small(), *BUSY), Watcher()
    check(run, watches=[watcher])
    assert watcher.entries == run.journal.entries
    assert watcher.states == [*(expected.state for expected in run.steps), None]
    assert watcher.lengths[:-1] == [expected.entries for expected in run.steps]


def test_a_broken_invariant_is_located() -> None:
    """If this fails, the report does not say when an invariant broke, or whose."""
    with pytest.raises(Divergence) as info:
        check(play(small(), *BUSY), watches=[Watcher(bad=3)])
    found = info.value
    assert (found.step, found.event, found.request, found.incarnation) == (3, 6, 2, 2)


class FeedsTwice(Engine):
    """Forgets in the third step that somebody runs already."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.steps = 0

    def _admit(self) -> None:
        super()._admit()
        self.steps += 1
        if self.steps == 3:
            self.running.append(self.running[0])


def test_a_breakdown_of_engine_and_model_is_told_last() -> None:
    """If this fails, the engine's breakdown hides which earlier step caused it."""
    run = replay(small(), [*START, Cancel(0)], FeedsTwice)
    assert len(run.steps) == 2
    assert len(run.events) == 4, "nothing happens after a breakdown"
    watcher = Watcher()
    with pytest.raises(Divergence) as info:
        check(run, Model, [watcher])
    assert info.value.signature == ("invariant", "batch")
    assert info.value.found == "a request id stands twice in the batch"
    assert info.value.event == 3
    assert len(watcher.states) == 3
    assert caught(spoiled(1, state=lambda s: s.ctx_len.clear()), run).step == 1


class Broken(Engine):
    def _deliver(self, *given: Any) -> None:
        raise ZeroDivisionError("engine")


@pytest.mark.parametrize("events", [START, START[:2]])
def test_an_engine_that_raises_is_a_finding(events: Sequence[AnyEvent]) -> None:
    """If this fails, a mistake of the engine ends the campaign with a traceback."""
    run = replay(small(), events, Broken)
    with pytest.raises(Divergence) as info:
        check(run)
    assert info.value.signature == ("exception", "ZeroDivisionError")
    assert info.value.expected == "engine and model go on"


def test_a_run_has_a_journal_of_its_own() -> None:
    """If this fails, facts of one run are held against another."""
    assert play(small(), Step()).journal is not play(small(), Step()).journal
    assert [type(entry) for entry in play(small()).journal.entries] == [Published]
