"""Schedules for Hypothesis: `simulate` with Hypothesis behind the choices.

One draw an event keeps generation fast and lets Hypothesis delete events when it shrinks; a
`RuleBasedStateMachine` draws several times and keeps its bookkeeping (`docs/bench.md`).
"""

from __future__ import annotations

from hypothesis import strategies as st

from draftproof.sim.choices import Digits
from draftproof.sim.engine import Engine
from draftproof.sim.events import choose_config
from draftproof.sim.run import MakeEngine, Run, simulate

_DIGITS = st.binary(min_size=6, max_size=6)
assert 2**48 == Digits.SPACE


class HypothesisChoices:
    """Choices drawn by Hypothesis (`draftproof.sim.choices.Choices`)."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def below(self, n: int) -> int:
        """Choose an index 0 .. n - 1; Digits' whole space costs one draw of six bytes."""
        if n == Digits.SPACE:
            return int.from_bytes(self._draw(_DIGITS), "little")
        return self._draw(st.integers(0, n - 1))


@st.composite
def runs(draw: st.DrawFn, max_events: int = 40, make_engine: MakeEngine = Engine) -> Run:
    """Whole runs of engine and model, for `draftproof.sim.lockstep.check`."""
    choices = HypothesisChoices(draw)
    config = choose_config(choices)
    return simulate(config, choices, draw(st.integers(1, max_events)), make_engine)
