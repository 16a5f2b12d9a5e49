"""`simulate`: events, batches, expected results and states, with no implementation in sight."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from draftproof.reference.config import checked
from draftproof.reference.drafter import make_drafter
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import (
    Batch,
    BatchError,
    Collaborators,
    Config,
    StepResult,
    WorkerState,
)
from draftproof.sim.choices import Choices
from draftproof.sim.divergence import Divergence
from draftproof.sim.engine import Engine
from draftproof.sim.errors import InjectedFault
from draftproof.sim.events import AnyEvent, Step, Submit, Warmup, choose_event
from draftproof.sim.journal import Asked, Journal
from draftproof.sim.packing import before_target

MakeEngine = Callable[[Config, Journal], Engine]


class Faults:
    """Raises at one armed seam; the same for the model and for any worker."""

    def __init__(self) -> None:
        self.armed: str | None = None
        self.fired = False

    def arm(self, seam: str | None) -> None:
        """The next forward fails at `seam`; None: it does not."""
        self.armed, self.fired = seam, False

    def at(self, seam: str) -> None:
        """`Collaborators.at`; and what lies between `prepare` and `forward`.

        A forward that is to fail for its hidden rows is handed none, and fails by itself.
        """
        if seam == self.armed:
            self.fired = True
            raise InjectedFault(seam)


@dataclass(slots=True)
class Expected:
    """One forward: its batch, the fault injected in it, and what must come of it.

    result: None if it fails; entries: how long the journal was when the forward had been answered;
    unread: no worker is asked for its state after it.
    """

    event: int
    batch: Batch
    fault: str | None
    result: StepResult | None
    state: WorkerState
    entries: int
    unread: bool = False


@dataclass(slots=True)
class Run:
    """A schedule and everything that it should lead to.

    breakdown: why engine and model could not go on after the last event. Usually a mistake of the
    engine made some steps earlier, so `check` lets every oracle look before it raises this.
    """

    config: Config
    events: list[AnyEvent] = field(default_factory=list)
    steps: list[Expected] = field(default_factory=list, repr=False)
    journal: Journal = field(default_factory=Journal, repr=False)
    breakdown: Divergence | None = None

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Hypothesis looks at every field otherwise, and a run has many."""
        printer.text(repr(self))


class Simulation:
    """Engine and model together, event by event."""

    def __init__(self, config: Config, make_engine: MakeEngine = Engine) -> None:
        self.config = checked(config)
        self.run = Run(self.config)
        self.engine = make_engine(self.config, self.run.journal)
        self._faults = Faults()
        self._model = Model(self.config, Collaborators(self._faults.at, make_drafter(self.config)))

    def apply(self, event: AnyEvent) -> Expected | None:
        """Let one event happen; returns the forward that it led to, if any.

        After a breakdown nothing happens any more.
        """
        if self.run.breakdown is not None:
            return None
        self.run.events.append(event)
        try:
            return self._apply(event)
        except Exception as error:  # noqa: BLE001 - the run ends here, the campaign goes on
            self._break_down(error)
            return None

    def finish(self) -> Run:
        """Deliver what is still under way; the run is complete."""
        if self.run.breakdown is None:
            try:
                self.engine.settle()
            except Exception as error:  # noqa: BLE001 - see `apply`
                self._break_down(error)
        return self.run

    def _apply(self, event: AnyEvent) -> Expected | None:
        self.run.journal.write(Asked(event))
        batch = self.engine.handle(event)
        if batch is None:
            return None
        fault = event.fault if isinstance(event, Step | Warmup) else None
        result = self._forward(batch, fault)
        expected = Expected(
            event=len(self.run.events) - 1,
            batch=batch,
            fault=fault,
            result=result,
            state=self._model.state(),
            entries=len(self.run.journal.entries),
            unread=isinstance(event, Step) and event.unread,
        )
        self.run.steps.append(expected)
        return expected

    def _break_down(self, error: Exception) -> None:
        kind, text = type(error).__name__, str(error)
        told = Divergence("exception", kind, "engine and model go on", text)
        if isinstance(error, BatchError):
            told = Divergence("invariant", "batch", "a batch that can be served", text)
        told.event = len(self.run.events) - 1
        told.__cause__ = error
        self.run.breakdown = told

    def _forward(self, batch: Batch, fault: str | None) -> StepResult | None:
        self._faults.arm(fault)
        self._model.prepare(before_target(batch))
        try:
            self._faults.at("target")
            given = replace(batch, hidden=None) if fault == "hidden" else batch
            result = self._model.forward(given)
        except (InjectedFault, BatchError) as error:
            if isinstance(error, BatchError) and fault != "hidden":
                raise
            self.engine.failed(batch)
            return None
        self.engine.completed(batch, result)
        return result


def simulate(
    config: Config,
    choices: Choices,
    events: int,
    make_engine: MakeEngine = Engine,
    first: int = 0,
) -> Run:
    """Let choices make a schedule of so many events, and say what must come of it.

    first: ordinal of the first request.
    """
    simulation = Simulation(config, make_engine)
    submitted = first
    for _ in range(events):
        event = choose_event(simulation.config, choices, simulation.engine.live, submitted)
        submitted += isinstance(event, Submit)
        simulation.apply(event)
    return simulation.finish()


def replay(config: Config, events: Iterable[AnyEvent], make_engine: MakeEngine = Engine) -> Run:
    """The run of a given schedule; any sub-sequence of a schedule is one."""
    simulation = Simulation(config, make_engine)
    for event in events:
        simulation.apply(event)
    return simulation.finish()
