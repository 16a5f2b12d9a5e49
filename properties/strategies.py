"""Schedules for Hypothesis, which stands behind the choices.

One draw an event keeps generation fast and lets Hypothesis delete events when it shrinks; a
`RuleBasedStateMachine` draws several times and keeps its bookkeeping (`docs/bench.md`).
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import reject
from hypothesis import strategies as st

from draftproof.reference.vocabulary import Config
from draftproof.sim.choices import Choices, Digits
from draftproof.sim.configs import choose_config
from draftproof.sim.engine import Engine
from draftproof.sim.events import Submit, choose_event
from draftproof.sim.run import MakeEngine, Run, Simulation

_SPACE = st.binary(min_size=7, max_size=7)
assert Digits.SPACE < 256**7


class HypothesisChoices:
    """Choices drawn by Hypothesis (`draftproof.sim.choices.Choices`).

    Bytes rather than integers, since Hypothesis mixes integers that it finds in our source files
    into its draws, so that any change of the code would change the examples.
    """

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def below(self, n: int) -> int:
        """Choose an index 0 .. n - 1; Digits' whole space costs one draw of seven bytes."""
        if n == Digits.SPACE:
            return int.from_bytes(self._draw(_SPACE), "little") % n
        return self._draw(st.integers(0, n - 1))


class _Drawn:
    """Choices for one event, already drawn."""

    def __init__(self, number: int) -> None:
        self._number = number

    def below(self, n: int) -> int:
        """The number: an event asks once, for the whole space."""
        return self._number % n


@st.composite
def runs(
    draw: st.DrawFn,
    max_events: int = 40,
    make_engine: MakeEngine = Engine,
    make_config: Callable[[Choices], Config] = choose_config,
) -> Run:
    """Whole runs of engine and model, for `draftproof.sim.lockstep.check`.

    A draw of zero ends a schedule. So what Hypothesis draws at random is as long as it may be, and
    what it makes simpler is short. An empty schedule shows nothing, and Hypothesis, which begins
    with the simplest examples, gives them up soon when they are rejected.
    """
    choices = HypothesisChoices(draw)
    simulation = Simulation(make_config(choices), make_engine)
    submitted = 0
    for _ in range(max_events):
        number = choices.below(Digits.SPACE)
        if not number:
            break
        live = simulation.engine.live
        event = choose_event(simulation.config, _Drawn(number), live, submitted)
        submitted += isinstance(event, Submit)
        simulation.apply(event)
    if not simulation.run.events:
        reject()
    return simulation.finish()
