"""Several ranks in one process: each with its own requests, engine, model and faults.

They share nothing but what hosts gather before a step, and the barrier: a log of who called what,
which must agree, for then nobody would have waited in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from draftproof.reference.vocabulary import Config
from draftproof.sim.choices import Choices, Digits
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import AnyEvent, Step, Submit, Warmup, choose_event
from draftproof.sim.faults import SITES
from draftproof.sim.rank_engine import Agreed, RankEngine, Wish, agree
from draftproof.sim.rank_events import On, RankEvent, Together
from draftproof.sim.run import Expected, MakeEngine, Run, Simulation

ALIKE = ("draft_len", "age", "windows")
"""What makes a step ragged, or not."""

Agree = Callable[[Config, Sequence[Wish]], Agreed]


@dataclass(slots=True)
class World:
    """A schedule of all ranks, and what it should lead to: a run of each, all equally long."""

    config: Config
    ranks: list[Run]
    events: list[RankEvent] = field(default_factory=list)

    @property
    def rounds(self) -> Iterable[tuple[int, tuple[Expected, ...]]]:
        """Each forward: the index of its event, and its step on every rank."""
        forwards = [i for i, event in enumerate(self.events) if isinstance(event, Together)]
        steps = zip(*(run.steps for run in self.ranks), strict=False)
        return zip(forwards, steps, strict=False)

    @property
    def breakdown(self) -> Divergence | None:
        """Why some rank could not go on."""
        return next((run.breakdown for run in self.ranks if run.breakdown is not None), None)


class RankSimulation:
    """All ranks' engines and models, event by event."""

    def __init__(
        self,
        config: Config,
        ranks: int,
        make_engine: MakeEngine = RankEngine,
        agree: Agree = agree,
    ) -> None:
        self.simulations = [Simulation(config, make_engine) for _ in range(ranks)]
        self.config = self.simulations[0].config
        self.world = World(self.config, [simulation.run for simulation in self.simulations])
        self._agree = agree
        for engine in self.engines:
            engine.peers = self.engines

    @property
    def engines(self) -> list[RankEngine]:
        """Of each rank."""
        engines = [simulation.engine for simulation in self.simulations]
        return [engine for engine in engines if isinstance(engine, RankEngine)]

    def apply(self, event: RankEvent) -> None:
        """Let one event happen. When a rank has broken down, nothing happens any more."""
        if self.world.breakdown is not None:
            return
        self.world.events.append(event)
        if isinstance(event, Together):
            self._together(event.events)
        elif event.rank < len(self.simulations) and not isinstance(event.event, Step | Warmup):
            self.simulations[event.rank].apply(event.event)

    def finish(self) -> World:
        """Deliver what is still under way; the world is complete."""
        for simulation in self.simulations:
            simulation.finish()
        for engine in self.engines:
            engine.peers = []  # engines that know each other wait for a collector of cycles
        return self.world

    def _together(self, given: Sequence[Step | Warmup]) -> None:
        count = len(self.simulations)
        events = [*given[:count], *[Step()] * (count - len(given))]
        wishes = [engine.wish(event) for engine, event in zip(self.engines, events, strict=True)]
        agreed = self._agree(self.config, wishes)
        for simulation, engine, event in zip(self.simulations, self.engines, events, strict=True):
            engine.agreed = agreed
            simulation.apply(event)


def simulate_ranks(
    config: Config,
    ranks: int,
    choices: Choices,
    events: int,
    make_engine: MakeEngine = RankEngine,
    agree: Agree = agree,
    disturb: int = 0,
) -> World:
    """Let choices make a schedule for so many ranks, and say what must come of it.

    disturb: one forward in so many has a fault more on one rank, any that there is; 0: none has.
    """
    simulation = RankSimulation(config, ranks, make_engine, agree)
    submitted = [0] * ranks
    for _ in range(events):
        event = _choose(simulation, choices, submitted)
        if disturb and isinstance(event, Together):
            event = _disturbed(event, Digits(choices), disturb)
        simulation.apply(event)
    return simulation.finish()


def replay_ranks(
    config: Config,
    ranks: int,
    events: Iterable[RankEvent],
    make_engine: MakeEngine = RankEngine,
    agree: Agree = agree,
) -> World:
    """The world of a given schedule."""
    simulation = RankSimulation(config, ranks, make_engine, agree)
    for event in events:
        simulation.apply(event)
    return simulation.finish()


def _choose(simulation: RankSimulation, choices: Choices, submitted: list[int]) -> RankEvent:
    """An event on some rank; if it is a forward, every other rank gets one too."""
    rank = Digits(choices).below(len(submitted))
    engines = simulation.engines

    def chosen(own: int) -> AnyEvent:
        return choose_event(simulation.config, choices, engines[own].live, submitted[own])

    event = chosen(rank)
    if isinstance(event, Step):
        steps = [_step(chosen, own) for own in range(len(submitted))]
        alike = {"graph": steps[rank].graph}  # else hardly ever do all of them want one
        if simulation.config.confidence_scheduling and Digits(choices).below(4):
            alike = _kind_of(steps)
        return Together(tuple(msgspec.structs.replace(step, **alike) for step in steps))
    if isinstance(event, Warmup):
        others = msgspec.structs.replace(event, fault=None)
        return Together(tuple(event if own == rank else others for own in range(len(submitted))))
    submitted[rank] += isinstance(event, Submit)
    return On(rank, event)


def _kind_of(steps: Sequence[Step]) -> dict[str, Any]:
    """What all ranks have in common if they are to plan together; each has its own budget."""
    first = next((step for step in steps if step.age and step.draft_len is None), steps[0])
    graph = any(step.graph for step in steps)
    return {"graph": graph, **{name: getattr(first, name) for name in ALIKE}}


def _disturbed(event: Together, digits: Digits, one_in: int) -> Together:
    if digits.below(one_in):
        return event
    place, kind = SITES[digits.below(len(SITES))]
    rank = digits.below(len(event.events))
    wrong = msgspec.structs.replace(event.events[rank], fault=place, kind=kind)
    if kind == "length" and isinstance(wrong, Step):  # of which there is one in ragged steps alone
        wrong = msgspec.structs.replace(wrong, windows=(2, 1), draft_len=None)
    return Together((*event.events[:rank], wrong, *event.events[rank + 1 :]))


def _step(chosen: Callable[[int], AnyEvent], rank: int) -> Step:
    """What the rank would do next, if it is a step; else a plain one."""
    event = chosen(rank)
    return event if isinstance(event, Step) else Step()
