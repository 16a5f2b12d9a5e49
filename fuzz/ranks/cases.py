"""One case of several ranks: a schedule for all of them, run and judged by every oracle."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from draftproof.fuzz.cases import Subject
from draftproof.properties.atomicity import Sites, check_fresh, check_later, check_undone
from draftproof.properties.rank_check import check_ranks, check_survivors, of_rank
from draftproof.sim.choices import Digits, Seeded
from draftproof.sim.configs import choose_config
from draftproof.sim.divergence import Divergence
from draftproof.sim.liveness import drain_ranks
from draftproof.sim.lockstep import Checked, MakeWorker
from draftproof.sim.rank_engine import RankEngine, agree
from draftproof.sim.ranks import Agree, RankSimulation, World, replay_ranks, simulate_ranks
from draftproof.sim.run import MakeEngine
from draftproof.sim.traces import Trace

EVENTS_PER_CASE = 40
RANKS = 4
"""Cases have up to so many ranks, unless somebody says how many."""
DISTURB = 6
"""One forward in so many has a fault on one of its ranks, beside those of any schedule: where
faults are what is looked for."""


@dataclass(frozen=True, slots=True)
class RankSubject(Subject):
    """What is tested on every rank; agree: how the ranks' hosts come to terms before a step."""

    make_engine: MakeEngine = RankEngine
    agree: Agree = agree

    def judge_world(self, world: World) -> Checked:
        """Every oracle on one world. Raises the first Divergence."""
        checked = check_ranks(world, self.make, self.step_timeout, self.alive)
        if self.live and self.make is not None:
            behind(world, self.make, checked.steps // len(world.ranks))
        return checked

    def failure(self, trace: Trace) -> Divergence | None:
        """What goes wrong in a trace, or None. Raises ConfigError if the factory refuses it."""
        ranks, events = max(1, trace.ranks), trace.together
        try:
            self.judge_world(
                replay_ranks(trace.config, ranks, events, self.make_engine, self.agree)
            )
        except Divergence as divergence:
            return divergence
        return None


@dataclass(slots=True)
class Behind:
    """What was compared behind faults, by place and kind.

    later: rows of requests admitted behind it, with those of a new worker (late results apart);
    undone: rows behind a fault in a warm-up, with those of a worker that never made it; peers:
    steps of ranks whose peer had it, with those of a rank alone; steps: how long it took until
    every request was done.
    """

    later: Sites = field(default_factory=Sites)
    undone: Sites = field(default_factory=Sites)
    peers: Sites = field(default_factory=Sites)
    steps: int = 0


def behind(world: World, make: MakeWorker, rounds: int | None = None) -> Behind:
    """Everything that must hold behind a fault. Raises the first Divergence.

    rounds: only so many forwards are compared, the worker having no seam for a fault in the next.
    """
    seen = [replace(run, steps=run.steps[:rounds]) for run in world.ranks]
    world = replace(world, ranks=seen)
    found = Behind(peers=check_survivors(world, make))
    for rank, run in enumerate(world.ranks):
        with of_rank(rank):
            found.later += check_fresh(run, make)
            found.later += check_later(run, make)
            found.undone += check_undone(run, make)
    simulation = RankSimulation(world.config, len(world.ranks))
    for event in world.events:
        simulation.apply(event)
    found.steps = drain_ranks(simulation)
    return found


def seeded_world(
    seed: int,
    index: int,
    ranks: int | None = None,
    make_engine: MakeEngine = RankEngine,
    agree: Agree = agree,
    disturb: int = 0,
) -> World:
    """Case `index` of a campaign over ranks; the same in every process and on every machine.

    disturb: one forward in so many has a fault more; 0: none.
    """
    choices = Seeded(seed * 1_000_000 + index)
    config = choose_config(choices)
    count = ranks or 1 + Digits(choices).below(RANKS)
    return simulate_ranks(config, count, choices, EVENTS_PER_CASE, make_engine, agree, disturb)


@dataclass(frozen=True, slots=True)
class FoundWorld:
    """A failing case; case: its index; steps: forwards of all ranks up to and including it."""

    divergence: Divergence
    world: World
    case: int
    steps: int


def find_seeded_world(
    subject: RankSubject, seed: int, most_steps: int = 20_000, ranks: int | None = None
) -> FoundWorld | None:
    """The first failing case of a seeded campaign of at most so many steps, or None."""
    steps = index = 0
    while steps < most_steps:
        world = seeded_world(seed, index, ranks, subject.make_engine, subject.agree)
        try:
            steps += subject.judge_world(world).steps
        except Divergence as divergence:
            done = len(world.ranks) * (1 + (divergence.step or 0))
            return FoundWorld(divergence, world, index, steps + done)
        index += 1
    return None
