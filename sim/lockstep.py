"""`check`: fold an implementation over a run and compare every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from draftproof.reference.vocabulary import (
    UNDONE,
    Batch,
    BatchError,
    Collaborators,
    Config,
    StepResult,
    Worker,
    WorkerState,
)
from draftproof.sim.blame import alarm, blamed
from draftproof.sim.compare import (
    SHOWN,
    result_difference,
    state_difference,
    windows_difference,
)
from draftproof.sim.divergence import Divergence
from draftproof.sim.drafting import ATTENTION, Drafting
from draftproof.sim.errors import INJECTED
from draftproof.sim.faults import LATE
from draftproof.sim.guide import ENGINE, installed, lend
from draftproof.sim.journal import Entry
from draftproof.sim.packing import before_target, isolated, poison, to_plan
from draftproof.sim.refusals import refused, unanswerable
from draftproof.sim.run import Crossed, Expected, Faults, Run

MakeWorker = Callable[[Config, Collaborators], Worker]


WINDOWS = "verify windows"
"""What is not checked of a worker that has no `plan`."""


class Watch(Protocol):
    """An oracle that looks at facts and states alone; made anew for every run."""

    def step(self, entries: Sequence[Entry], state: WorkerState | None) -> None:
        """See what the journal gained, and the state after it. Raises Divergence."""


@dataclass(slots=True)
class Checked:
    """What a check has seen: forwards, fields of the state not shown, faults that met no seam.

    faults: those that happened in the worker, late results among them, by place and kind.
    """

    steps: int = 0
    not_checked: set[str] = field(default_factory=set)
    faults_without_seam: int = 0
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)


def check(
    run: Run,
    make: MakeWorker | None = None,
    watches: Sequence[Watch] = (),
    timeout: float = 0.0,
    alive: Callable[[], None] = lambda: None,
) -> Checked:
    """Compare an implementation with a run, and let the watches see both.

    make: None checks the engine and the model alone; timeout: seconds per step, 0 for none; alive:
    called before every step.
    Raises the first Divergence: a difference, a broken invariant, an exception, or a hang; a
    breakdown of engine and model last.
    """
    checked, faults, seen = Checked(), Faults(), 0
    side = None
    if make is not None:
        worker = make(run.config, lend(run.config, faults.at))
        side = Side(worker, run.config, faults, checked, timeout)
        if run.config.target_logits and not installed():
            checked.not_checked.add(f"the grammar engine {ENGINE}, which is not installed")
    with alarm() if timeout else nullcontext():
        for expected in run.steps:
            alive()
            with located(expected):
                for watch in watches:
                    watch.step(run.journal.entries[seen : expected.entries], expected.state)
                seen = expected.entries
                if side is not None and not side.step(expected):
                    return checked
            checked.steps += 1
    if side is not None and run.steps:
        side.refuse(run.steps[-1])
    for watch in watches:
        watch.step(run.journal.entries[seen:], None)
    if run.breakdown is not None:
        raise run.breakdown
    return checked


@dataclass(slots=True)
class Side:
    """The implementation's side of a run.

    failed: its last step failed, warm-ups apart; crossed: its barrier calls in the last step; last:
    the last batch that counted, what should have come of it, and what came.
    """

    worker: Worker
    config: Config
    faults: Faults
    checked: Checked
    timeout: float
    failed: bool = False
    crossed: list[Crossed] = field(default_factory=list)
    last: tuple[Batch, StepResult, Any] | None = None
    drafting: Drafting = field(init=False)

    def __post_init__(self) -> None:
        self.drafting = Drafting(self.worker, self.config.max_draft_len)

    def step(self, expected: Expected) -> bool:
        """One step; False if the run cannot go on from here."""
        self.faults.passing = self.drafting.at
        try:
            return self._step(expected)
        finally:
            self.faults.forget()

    def _step(self, expected: Expected) -> bool:
        batch = isolated(expected.batch)
        self.crossed.clear()
        self.faults.arm(expected.fault, expected.kind, batch.step % self.config.num_stages)
        self.drafting.begin(batch)
        result = self._forward(batch)
        if not self._happened(expected):
            self.checked.faults_without_seam += 1
            return False
        if not self.drafting.end(expected.result is not None):
            self.checked.not_checked.add(ATTENTION)
        poison(batch)  # results are delivered later, so they must not be views of it either
        if expected.late:
            self._compare_again()
        if expected.batch.mode not in UNDONE:
            self.failed, self.last = expected.result is None, None
            if expected.result is not None:
                self.last = expected.batch, expected.result, result
                self._compare_results(*self.last)
        # The end of a warm-up undoes it; without an end there is nothing to compare.
        if not (expected.unread or expected.unended):
            self._compare_states(expected)
        return True

    def _happened(self, expected: Expected) -> bool:
        """Count what went wrong; False if it was to be a fault at a seam that never came."""
        if expected.late:
            self.checked.faults[LATE] += 1
        if expected.fault is None:
            return True
        if expected.fault != "result" and not self.faults.fired:
            return False
        self.checked.faults[expected.fault, expected.kind] += 1
        return True

    def refuse(self, last: Expected) -> None:
        """Offer what must be refused, after the last step, whose state stays."""
        self.faults.arm(None)
        for reason, batch in refused(self.config):
            self._refuses(reason, self.worker.prepare, before_target(batch))
        warmup, answers = unanswerable(self.config)
        for reason, batch in answers:
            with blamed(self.timeout, "no exception"):
                self.worker.prepare(before_target(warmup))
            self._refuses(reason, self.worker.forward, batch)
        if not last.unended:
            self._compare_untouched(last)

    def _forward(self, batch: Batch) -> StepResult | None:
        """Run one step; None if the injected fault came through."""
        try:
            self.faults.at("start")
            with blamed(self.timeout, "no exception"):
                self.worker.prepare(before_target(batch))
            if batch.verify_budget is not None:
                self._plan(batch)
            self.faults.at("target")
            if self.faults.armed in ("hidden", "answer"):
                self._unanswerable(batch)
                return None
            with blamed(self.timeout, "no exception"):
                result = self.worker.forward(batch)
        except INJECTED as error:
            if error is self.faults.first:
                return None
            if self.faults.fired:
                wanted, found = f"the fault at {self.faults.armed!r}", f"a later one, at {error}"
                raise Divergence("exception", "fault", wanted, found) from error
            fault = f"the fault of an earlier step at {error}"
            raise Divergence("exception", "InjectedFault", "no exception", fault) from error
        if self.faults.fired and self.faults.kind != "cancel":
            wanted = f"the fault at {self.faults.armed!r}"
            raise Divergence("exception", "fault", wanted, "a result")
        return result

    def _plan(self, batch: Batch) -> None:
        """Let the worker choose the windows of a planned step, if it can, and compare them."""
        plan = getattr(self.worker, "plan", None)
        if plan is None:
            self.checked.not_checked.add(WINDOWS)
            return
        with blamed(self.timeout, "verify windows, one per generation"):
            difference = windows_difference(batch, plan(to_plan(batch)))
        if difference is not None:
            raise difference

    def _unanswerable(self, batch: Batch) -> None:
        """A forward that nothing good was left for (sections 15 and 16, row 7)."""
        given = self.faults.answer(batch, self.config.vocab_size)
        why = "there are no hidden rows"
        if given.hidden is not None:
            why = "the target's answer has a number that cannot be"
        self._refuses(why, self.worker.forward, given)

    def _refuses(self, reason: str, call: Callable[[Batch], object], batch: Batch) -> None:
        """What has to raise BatchError."""
        try:
            with blamed(self.timeout, f"BatchError, for {reason}"):
                call(batch)
        except Divergence as divergence:
            if isinstance(divergence.__cause__, BatchError):
                return
            raise
        raise Divergence("exception", "BatchError", f"raised, for {reason}", "accepted")

    def _compare_results(self, batch: Batch, expected: StepResult, found: Any) -> None:
        with blamed(self.timeout, "a result as `StepResult` describes it"):
            difference = result_difference(self.config, batch, expected, found)
        if difference is not None:
            raise difference

    def _compare_untouched(self, last: Expected) -> None:
        # As behind a warm-up, which was the last that the worker prepared.
        behind = replace(last, batch=replace(last.batch, mode="warmup"))
        try:
            self._compare_states(behind)
        except Divergence as divergence:
            divergence.whose = "seen after the last step, behind batches that have to be refused"
            raise

    def _compare_again(self) -> None:
        """What a late step hands over has outlived its forward, whose result it must not be."""
        if self.last is None:
            return
        try:
            self._compare_results(*self.last)
        except Divergence as divergence:
            step = self.last[0].step
            divergence.whose = f"the result of step {step}, which was right, until this step ran"
            raise

    def _compare_states(self, expected: Expected) -> None:
        """After a failed step only the slots, until a prepare() that is not undone."""
        with blamed(self.timeout, "a state as `WorkerState` describes it"):
            state = self.worker.state()
            difference = state_difference(
                self.config, expected.batch, expected.state, state, self.failed
            )
            if difference is None:
                self.checked.not_checked.update(not_shown(self.config, state))
        if difference is not None:
            raise difference


def not_shown(config: Config, state: WorkerState) -> set[str]:
    """Fields that this worker does not show although its configuration has them."""
    absent = set() if config.use_rejection_sampling else {"draft_probs"}
    if not config.target_logits:
        absent |= {"token_counts", "prompt_seen", "grammar_depth"}
    return {name for name in SHOWN if getattr(state, name) is None} - absent


@contextmanager
def located(expected: Expected) -> Iterator[None]:
    """Say of a failure in which step and event it came, and whose it is."""
    try:
        yield
    except Divergence as divergence:
        divergence.step, divergence.event = expected.batch.step, expected.event
        if divergence.request is not None and divergence.incarnation is None:
            own = [
                row.incarnation
                for row in expected.batch.rows
                if row.request_id == divergence.request
            ]
            divergence.incarnation = own[0] if own else None
        raise
