"""Swarm testing: each case has weights of its own, so that some cases are one-sided for long.

Groce et al., "Swarm Testing" (ISSTA 2012): what a test leaves out matters as much as what it does.
"""

from __future__ import annotations

from draftproof.fuzz.cases import EVENTS_PER_CASE, LONG, LONG_EVERY
from draftproof.sim.choices import Choices, Digits, Seeded
from draftproof.sim.configs import choose_config
from draftproof.sim.engine import Engine
from draftproof.sim.events import KINDS, Step
from draftproof.sim.run import MakeEngine, Run, simulate

HEAVIEST = 100


class Swarm:
    """Choices whose events are of a random subset of kinds, each with a weight from 1 to 100.

    The lowest digit of an event's draw is its kind (`draftproof.sim.events.choose_event`), so it is
    drawn by these weights here. Steps are always among the kinds: nothing happens without them.
    """

    def __init__(self, choices: Choices) -> None:
        self._choices = choices
        kinds = dict.fromkeys(KINDS)
        weights = [
            1 + choices.below(HEAVIEST) if kind is Step or choices.below(2) else 0 for kind in kinds
        ]
        firsts = [KINDS.index(kind) for kind in kinds]
        pairs = zip(firsts, weights, strict=True)
        self._lottery = [first for first, weight in pairs for _ in range(weight)]

    def below(self, n: int) -> int:
        """Choose an index 0 .. n - 1."""
        if n != Digits.SPACE:
            return self._choices.below(n)
        rest = self._choices.below(n // len(KINDS))
        return rest * len(KINDS) + self._lottery[self._choices.below(len(self._lottery))]


def swarm_case(seed: int, index: int, make_engine: MakeEngine = Engine) -> Run:
    """Case `index` of a swarm campaign; the same in every process and on every machine."""
    choices = Seeded(seed * 1_000_000 + index)
    config = choose_config(choices)
    first = (0, 0, 0, 126, 250)[choices.below(5)]  # as in `seeded_case`
    events = EVENTS_PER_CASE * (LONG if index % LONG_EVERY == LONG_EVERY - 1 else 1)
    return simulate(config, Swarm(choices), events, make_engine, first)
