"""`simulate`: events, batches, expected results and states, with no implementation in sight."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from draftproof.reference.confidence import Snapshot
from draftproof.reference.config import checked
from draftproof.reference.drafter import make_drafter
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import (
    UNDONE,
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
from draftproof.sim.errors import INJECTED
from draftproof.sim.events import AnyEvent, Cancel, Step, Submit, Warmup, choose_event
from draftproof.sim.faults import Faults as Faults
from draftproof.sim.faults import Kind, normal
from draftproof.sim.grammars import automata
from draftproof.sim.journal import Asked, Journal
from draftproof.sim.snapshots import confidences

MakeEngine = Callable[[Config, Journal], Engine]
Crossed = tuple[int, int, tuple[int, ...]]
"""One call of the ranks' barrier: stage, rows that the rank brought, the list of all ranks'."""
MakeModel = Callable[[Config, Collaborators], Model]


@dataclass(slots=True)
class Expected:
    """One forward: its batch, the fault injected in it, and what must come of it.

    fault, kind: what went wrong in it, None if it never came to that; late: the last results were
    handed over only when it was under way; result: None if it fails; entries: how long the journal
    was when the forward had been answered; unread: no worker is asked for its state after it;
    crossed: the calls of the ranks' barrier.
    """

    event: int
    batch: Batch
    fault: str | None
    result: StepResult | None
    state: WorkerState
    entries: int
    unread: bool = False
    kind: Kind = "exception"
    late: bool = False
    crossed: tuple[Crossed, ...] = ()

    @property
    def never_forward(self) -> bool:
        """The step ended before its forward, so the harness crosses the barrier for the worker."""
        before = self.fault in ("start", "assign", "target")
        return before and self.kind != "cancel"

    @property
    def unended(self) -> bool:
        """A warm-up that never came to its forward, whose end would have undone it."""
        before = self.fault in ("assign", "target") and self.kind != "cancel"
        return before and self.batch.mode in UNDONE


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
    """Engine and model together, event by event.

    Nothing that it lends refers back to it: whoever drops a run has its memory back at once, and
    campaigns do not grow until a collector of cycles comes along.
    """

    def __init__(
        self, config: Config, make_engine: MakeEngine = Engine, make_model: MakeModel = Model
    ) -> None:
        self.config = checked(config)
        self.run = Run(self.config)
        self.engine = make_engine(self.config, self.run.journal)
        self._faults = Faults()
        guide = automata(self.config.vocab_size) if self.config.target_logits else None
        self._crossed: list[Crossed] = []
        barrier = partial(_cross, self._crossed)
        lent = Collaborators(
            self._faults.at, make_drafter(self.config), guide=guide, barrier=barrier
        )
        self._model = make_model(self.config, lent)

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
        self._unless_broken(self.engine.settle)
        self._unless_broken(self.engine.publish)
        self._faults.forget()
        return self.run

    def settle(self) -> None:
        """Deliver what is still under way, and go on."""
        self._unless_broken(self.engine.settle)

    def _unless_broken(self, act: Callable[[], None]) -> None:
        if self.run.breakdown is None:
            try:
                act()
            except Exception as error:  # noqa: BLE001 - see `apply`
                self._break_down(error)

    def _apply(self, event: AnyEvent) -> Expected | None:
        self.run.journal.write(Asked(event))
        batch = self.engine.handle(event)
        if batch is None:
            return None
        self._arm(event, batch)
        late = isinstance(event, Step) and self.engine.awaits
        batch, result = self._serve(batch, isinstance(event, Step) and event.broken)
        self._look(batch, result)
        faults = self._faults
        expected = Expected(
            event=len(self.run.events) - 1,
            batch=batch,
            fault=faults.armed if faults.fired else None,
            kind=faults.kind,
            late=late,
            crossed=tuple(self._crossed),
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

    def _plan(self, batch: Batch, broken: bool) -> Batch:
        """Let the model choose the windows of a planned step, and the engine pack it by them."""
        model = self._model
        spoiled = model.batch_to_slot[:1] if broken else []
        handed = confidences(self.config, model.confidence, spoiled)
        planned = replace(batch, confidences=handed)
        return self.engine.pack(planned, model.plan(planned))

    def _look(self, batch: Batch, result: StepResult | None) -> None:
        """The host will have a snapshot of this step, when it is old enough."""
        model = self._model
        if self.config.confidence_scheduling and batch.mode not in UNDONE:
            table, owners = list(model.confidence), dict(model.slots.owned)
            snapshot = Snapshot(table, list(model.stamps), owners, model.draft_seq)
            self.engine.snapshots.keep(None if result is None else snapshot)

    def _arm(self, event: AnyEvent, batch: Batch) -> None:
        """What is to go wrong in this step; a planned one is nothing yet before `prepare`."""
        place = event.fault if isinstance(event, Step | Warmup) else None
        kind = normal(place, event.kind) if isinstance(event, Step | Warmup) else "exception"
        if batch.verify_budget is not None and place in ("start", "assign"):
            place = None
        cancel = partial(_cancel, self.engine, self.run.journal)
        self._faults.arm(place, kind, batch.step % self.config.num_stages, cancel)

    def _serve(self, batch: Batch, broken: bool) -> tuple[Batch, StepResult | None]:
        """One step of the model; no result if it fails. A planned batch has its windows then."""
        faults, prepared, forward = self._faults, False, False
        self._crossed.clear()
        try:
            faults.at("start")
            self._model.prepare(batch)  # which is trusted not to look at what the target says
            prepared = True
            if batch.verify_budget is not None:
                batch = self._plan(batch, broken)
            faults.at("target")
            forward = True
            result = self._model.forward(faults.answer(batch, self.config.vocab_size))
        except (*INJECTED, BatchError) as error:
            if isinstance(error, BatchError) and faults.armed not in ("hidden", "answer"):
                raise
            if not forward:  # so nobody else crosses for this rank
                self._model.barrier.step(batch)
                self._model.barrier.cross_failed()
            self.engine.failed(batch, prepared)
            return batch, None
        self.engine.completed(batch, result)
        if faults.armed == "result" and batch.mode not in UNDONE:
            faults.fired = True
            self.engine.lost()
        return batch, result


def _cross(crossed: list[Crossed], stage: int, rows: int, counts: Sequence[int]) -> None:
    """The barrier that the model is lent."""
    crossed.append((stage, rows, tuple(counts)))


def _cancel(engine: Engine, journal: Journal) -> None:
    """The request that was admitted first is cancelled, at this very moment."""
    if engine.running:
        event = Cancel(engine.running[0].ordinal)
        journal.write(Asked(event))
        engine.handle(event)


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
