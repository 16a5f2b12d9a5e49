"""Breadth first, so that the first failure is a shortest one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from draftproof.fuzz.cases import Subject
from draftproof.fuzz.explore.names import pattern, views
from draftproof.fuzz.explore.scope import Scope
from draftproof.fuzz.explore.states import ASIDE, Key, digest, memory, model_of
from draftproof.reference.vocabulary import Collaborators, Config, Worker
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import AnyEvent
from draftproof.sim.run import Simulation

Path = tuple[AnyEvent, ...]


@dataclass(slots=True)
class Explored:
    """What there is in a scope.

    model_states: states of engine and model alone; states: of the worker beside them; edges: moves
    tried; levels: new states by their distance from the start; failure: the events of a shortest
    failing schedule, and what went wrong.
    """

    states: int = 1
    edges: int = 0
    model_states: int = 1
    levels: list[int] = field(default_factory=lambda: [1])
    failure: tuple[Path, Divergence] | None = None


class _Held:
    """Makes workers and keeps the last one in sight."""

    def __init__(self, make: Callable[[Config, Collaborators], Worker] | None) -> None:
        self.make = make
        self.worker: Worker | None = None

    def __call__(self, config: Config, collaborators: Collaborators) -> Worker:
        assert self.make is not None
        self.worker = self.make(config, collaborators)
        return self.worker


class Search:
    """One exploration. Each edge is run from the start, so that any worker can be explored.

    symmetry: states are the same that differ in names alone; show: told of each schedule first. The
    memory of a worker is looked at when it has refused what `check` offers it last.
    """

    def __init__(
        self,
        scope: Scope,
        subject: Subject,
        symmetry: bool = False,
        show: Callable[[Path], None] = lambda path: None,
    ) -> None:
        self.scope, self.symmetry, self.show = scope, symmetry, show
        self.held = _Held(subject.make)
        make = None if subject.make is None else self.held
        self.subject = replace(subject, make=make)
        self.explored = Explored()
        self.models: set[Key] = set()
        self.states: set[Key] = set()

    def go(self, told: Callable[[Explored], None] = lambda explored: None) -> Explored:
        """Everything up to the scope's depth, or the first failure."""
        self._new(self._simulate(()), ())
        frontier: list[Path] = [()]
        for _ in range(self.scope.depth):
            behind: list[Path] = []
            for path in frontier:
                for move in self.scope.moves(path):
                    if self._edge((*path, *move)):
                        behind.append((*path, *move))
                    if self.explored.failure is not None:
                        return self.explored
            self.explored.levels.append(len(behind))
            told(self.explored)
            frontier = behind
        return self.explored

    def _edge(self, path: Path) -> bool:
        """Run one move; whether it leads to a new state."""
        self.explored.edges += 1
        self.show(path)
        simulation = self._simulate(path)
        try:
            self.subject.judge(simulation.run)
        except Divergence as divergence:
            self.explored.failure = (path, divergence)
            return False
        return self._new(simulation, path)

    def _simulate(self, path: Path) -> Simulation:
        """Not finished: what is still under way belongs to the state."""
        simulation = Simulation(self.scope.config(), self.subject.make_engine)
        for event in path:
            simulation.apply(event)
        return simulation

    def _new(self, simulation: Simulation, path: Path) -> bool:
        """What the scope still allows belongs to the state."""
        worker, spent = self.held.worker, self.scope.spent(path)
        if self.symmetry:
            model, beside = digest([spent, *views(simulation)]), digest(pattern(worker))
        else:
            parts = memory([simulation.engine, model_of(simulation)], ASIDE)
            model, beside = digest([spent, *parts]), digest(memory(worker))
        new = model + beside not in self.states
        self.models.add(model)
        self.states.add(model + beside)
        self.explored.model_states = len(self.models)
        self.explored.states = len(self.states)
        return new
