"""`check`: fold an implementation over a run and compare every step."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from draftproof.reference.drafter import make_drafter
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
from draftproof.sim.compare import SHOWN, result_difference, state_difference
from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import InjectedFault, StepTimeout
from draftproof.sim.journal import Entry
from draftproof.sim.packing import before_target, isolated, poison
from draftproof.sim.refusals import refused
from draftproof.sim.run import Expected, Faults, Run

MakeWorker = Callable[[Config, Collaborators], Worker]


class Watch(Protocol):
    """An oracle that looks at facts and states alone; made anew for every run."""

    def step(self, entries: Sequence[Entry], state: WorkerState | None) -> None:
        """See what the journal gained, and the state after it. Raises Divergence."""


@dataclass(slots=True)
class Checked:
    """What a check has seen: forwards, fields of the state not shown, faults that met no seam."""

    steps: int = 0
    not_checked: set[str] = field(default_factory=set)
    faults_without_seam: int = 0


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
        worker = make(run.config, Collaborators(faults.at, make_drafter(run.config)))
        side = _Side(worker, run.config, faults, checked, timeout)
    with _alarm() if timeout else nullcontext():
        for expected in run.steps:
            alive()
            with _located(run, expected):
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
class _Side:
    """The implementation's side of a run; failed: its last step failed, warm-ups apart."""

    worker: Worker
    config: Config
    faults: Faults
    checked: Checked
    timeout: float
    failed: bool = False

    def step(self, expected: Expected) -> bool:
        """One step; False if the run cannot go on from here."""
        batch = isolated(expected.batch)
        self.faults.arm(expected.fault)
        result = self._forward(batch)
        if expected.fault is not None and not self.faults.fired:
            self.checked.faults_without_seam += 1
            return False
        poison(batch)  # results are delivered later, so they must not be views of it either
        undone = expected.batch.mode in UNDONE
        if not undone:
            self.failed = expected.result is None
            if expected.result is not None:
                self._compare_results(expected.batch, expected.result, result)
        # The end of a warm-up undoes it; without an end there is nothing to compare.
        if not (expected.unread or (undone and expected.fault == "target")):
            self._compare_states(expected)
        return True

    def refuse(self, last: Expected) -> None:
        """Offer what must be refused, after the last step, whose state stays."""
        for reason, batch in refused(self.config):
            self._refuses(reason, self.worker.prepare, before_target(batch))
        if not (last.batch.mode in UNDONE and last.fault == "target"):
            self._compare_states(last)

    def _forward(self, batch: Batch) -> StepResult | None:
        """Run one step; None if the injected fault came through."""
        try:
            with _blamed(self.timeout, "no exception"):
                self.worker.prepare(before_target(batch))
            self.faults.at("target")
            if self.faults.armed == "hidden":
                self._without_hidden(batch)
                return None
            with _blamed(self.timeout, "no exception"):
                result = self.worker.forward(batch)
        except InjectedFault as error:
            if self.faults.fired:
                return None
            fault = f"the fault of an earlier step at {error}"
            raise Divergence("exception", "InjectedFault", "no exception", fault) from error
        if self.faults.fired:
            wanted = f"the fault at {self.faults.armed!r}"
            raise Divergence("exception", "fault", wanted, "a result")
        return result

    def _without_hidden(self, batch: Batch) -> None:
        """A forward for which nothing was captured (section 16, row 7)."""
        self.faults.fired = True
        self._refuses("there are no hidden rows", self.worker.forward, replace(batch, hidden=None))

    def _refuses(self, reason: str, call: Callable[[Batch], object], batch: Batch) -> None:
        """What has to raise BatchError."""
        try:
            with _blamed(self.timeout, f"BatchError, for {reason}"):
                call(batch)
        except Divergence as divergence:
            if isinstance(divergence.__cause__, BatchError):
                return
            raise
        raise Divergence("exception", "BatchError", f"raised, for {reason}", "accepted")

    def _compare_results(self, batch: Batch, expected: StepResult, found: Any) -> None:
        with _blamed(self.timeout, "a result as `StepResult` describes it"):
            difference = result_difference(self.config, batch, expected, found)
        if difference is not None:
            raise difference

    def _compare_states(self, expected: Expected) -> None:
        """After a failed step only the slots, until a prepare() that is not undone."""
        with _blamed(self.timeout, "a state as `WorkerState` describes it"):
            state = self.worker.state()
            self.checked.not_checked.update(not_shown(self.config, state))
            difference = state_difference(
                self.config, expected.batch, expected.state, state, self.failed
            )
        if difference is not None:
            raise difference


def not_shown(config: Config, state: WorkerState) -> set[str]:
    """Fields that this worker does not show although its configuration has them."""
    absent = set() if config.use_rejection_sampling else {"draft_probs"}
    return {name for name in SHOWN if getattr(state, name) is None} - absent


@contextmanager
def _blamed(timeout: float, wanted: str) -> Iterator[None]:
    """Whatever goes wrong in here, or takes too long, is the implementation's doing."""
    try:
        if timeout:
            signal.setitimer(signal.ITIMER_REAL, timeout)
        yield
    except InjectedFault:
        raise
    except StepTimeout as error:
        raise Divergence("hang", "timeout", f"a step within {timeout:g} s", "no answer") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # that of a cancelled task or of a panic is no Exception
        raise Divergence("exception", type(error).__name__, wanted, _text(error)) from error
    finally:
        if timeout:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _text(error: BaseException) -> str:
    """What an exception says, as text that can be printed."""
    try:
        return str(error).encode("utf-8", "backslashreplace").decode()
    except Exception:  # noqa: BLE001 - its own method fails
        return "(an exception that cannot be told)"


@contextmanager
def _alarm() -> Iterator[None]:
    """When a timer runs out in here, StepTimeout is raised."""

    def expired(signum: int, frame: object) -> None:
        raise StepTimeout

    previous = signal.signal(signal.SIGALRM, expired)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, previous)


@contextmanager
def _located(run: Run, expected: Expected) -> Iterator[None]:
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
