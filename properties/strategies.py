"""Schedules for Hypothesis: `simulate` with Hypothesis behind the choices.

One draw an event keeps generation fast and lets Hypothesis delete events when it shrinks; a
`RuleBasedStateMachine` draws several times and keeps its bookkeeping (`docs/bench.md`).
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from draftproof.reference.vocabulary import Config
from draftproof.sim.choices import Choices, Digits
from draftproof.sim.engine import Engine
from draftproof.sim.events import choose_config
from draftproof.sim.run import MakeEngine, Run, simulate

_SPACE = st.binary(min_size=6, max_size=6)
assert Digits.SPACE == 256**6


class HypothesisChoices:
    """Choices drawn by Hypothesis (`draftproof.sim.choices.Choices`).

    Bytes rather than integers, since Hypothesis mixes integers that it finds in our source files
    into its draws, so that any change of the code would change the examples.
    """

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def below(self, n: int) -> int:
        """Choose an index 0 .. n - 1; Digits' whole space costs one draw of six bytes."""
        if n == Digits.SPACE:
            return int.from_bytes(self._draw(_SPACE), "little")
        return self._draw(st.integers(0, n - 1))


@st.composite
def runs(
    draw: st.DrawFn,
    max_events: int = 40,
    make_engine: MakeEngine = Engine,
    make_config: Callable[[Choices], Config] = choose_config,
) -> Run:
    """Whole runs of engine and model, for `draftproof.sim.lockstep.check`."""
    choices = HypothesisChoices(draw)
    config = make_config(choices)
    return simulate(config, choices, 1 + Digits(choices).below(max_events), make_engine)
