"""One case: a trace, run and judged by every oracle there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from draftproof.properties.asked import Schedule
from draftproof.properties.invariants import Invariants
from draftproof.properties.planned import Plans
from draftproof.reference.vocabulary import Config
from draftproof.sim.choices import Seeded
from draftproof.sim.configs import choose_config
from draftproof.sim.divergence import Divergence
from draftproof.sim.engine import Engine
from draftproof.sim.liveness import check_live
from draftproof.sim.lockstep import Checked, MakeWorker, Watch, check
from draftproof.sim.run import MakeEngine, Run, replay, simulate
from draftproof.sim.traces import Trace

EVENTS_PER_CASE = 40
LONG_EVERY, LONG = 16, 10
"""One case in so many is so many times as long: some things go wrong late."""


def watches(config: Config) -> list[Watch]:
    """All of `properties/` that looks on while a run is checked."""
    return [Invariants(config), Schedule(config), Plans(config)]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is tested: an implementation, or None for engine and model alone, and an engine.

    live: also whether every request is done in the end, once nothing is disturbed any more.
    """

    make: MakeWorker | None
    make_engine: MakeEngine = Engine
    step_timeout: float = 0.0
    alive: Callable[[], None] = lambda: None
    live: bool = False

    def judge(self, run: Run) -> Checked:
        """Every oracle on one run. Raises the first Divergence."""
        config = run.config
        if self.live:
            check_live(config, run.events, self.make_engine)
        return check(run, self.make, watches(config), self.step_timeout, self.alive)

    def failure(self, trace: Trace) -> Divergence | None:
        """What goes wrong in a trace, or None. Raises ConfigError if the factory refuses it."""
        try:
            self.judge(replay(trace.config, trace.alone, self.make_engine))
        except Divergence as divergence:
            return divergence
        return None


class MakeCase(Protocol):
    """A driver: case `index` of the campaign with this seed, the same in every process."""

    def __call__(self, seed: int, index: int, make_engine: MakeEngine = Engine) -> Run:
        """Make a schedule, and what must come of it."""


def seeded_case(seed: int, index: int, make_engine: MakeEngine = Engine) -> Run:
    """Case `index` of a campaign; the same in every process and on every machine."""
    choices = Seeded(seed * 1_000_000 + index)
    config = choose_config(choices)
    first = (0, 0, 0, 126, 250)[choices.below(5)]  # late requests have larger numbers
    events = EVENTS_PER_CASE * (LONG if index % LONG_EVERY == LONG_EVERY - 1 else 1)
    return simulate(config, choices, events, make_engine, first)
