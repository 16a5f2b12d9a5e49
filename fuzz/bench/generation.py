"""How fast schedules are made, with neither engine nor implementation behind them."""

from __future__ import annotations

from statistics import median
from time import process_time as clock

from hypothesis import given, seed
from hypothesis import strategies as st

from draftproof.fuzz.bench.figures import Figure, Goal
from draftproof.fuzz.bench.sizes import Sizes
from draftproof.fuzz.bench.state_machine import ScheduleMachine, drive, plain_settings
from draftproof.fuzz.bench.turns import Rate, in_turns
from draftproof.fuzz.cases import EVENTS_PER_CASE
from draftproof.properties.strategies import HypothesisChoices
from draftproof.sim.choices import Choices, Seeded
from draftproof.sim.configs import choose_config
from draftproof.sim.events import AnyEvent, Cancel, Submit, choose_event

PART = "generation"
GOAL = Goal(20.0, at_least=True)


def measure(sizes: Sizes) -> list[Figure]:
    """Rates of all three ways of driving, in turns."""
    ways: dict[str, Rate] = {
        "seeded": lambda n: _seeded(n, sizes.seeded_events // EVENTS_PER_CASE),
        "Hypothesis": lambda n: _hypothesis(n, sizes.machine_cases),
        "state machine": lambda n: _state_machine(n, sizes.machine_cases),
    }
    rates = in_turns(ways, sizes.repetitions)
    figures = [Figure(PART, "events", way, median(rates[way]), "per s") for way in ways]
    for way, goal in (("seeded", GOAL), ("Hypothesis", None)):
        figures.append(Figure(PART, "times the state machine", way, ratio(rates, way), "x", goal))
    return figures


def ratio(rates: dict[str, list[float]], way: str) -> float:
    """Median over repetitions of a way's rate in those of the state machine's."""
    pairs = zip(rates[way], rates["state machine"], strict=True)
    return median(own / machine for own, machine in pairs)


def make_schedule(choices: Choices) -> list[AnyEvent]:
    """One schedule; of the requests only who was submitted and cancelled is known."""
    config = choose_config(choices)
    live: list[int] = []
    events: list[AnyEvent] = []
    submitted = 0
    for _ in range(EVENTS_PER_CASE):
        event = choose_event(config, choices, live, submitted)
        if isinstance(event, Submit):
            live.append(event.request)
            submitted += 1
        elif isinstance(event, Cancel):
            live.remove(event.request)
        events.append(event)
    return events


def _seeded(number: int, cases: int) -> float:
    start = clock()
    events = sum(len(make_schedule(Seeded(number * cases + case))) for case in range(cases))
    return events / (clock() - start)


@st.composite
def schedules(draw: st.DrawFn) -> list[AnyEvent]:
    """`make_schedule` with Hypothesis behind the choices."""
    return make_schedule(HypothesisChoices(draw))


def _hypothesis(number: int, examples: int) -> float:
    events = 0

    @seed(number)
    @plain_settings(examples)
    @given(schedules())
    def example(schedule: list[AnyEvent]) -> None:
        nonlocal events
        events += len(schedule)

    start = clock()
    example()
    return events / (clock() - start)


def _state_machine(number: int, examples: int) -> float:
    before = ScheduleMachine.events
    start = clock()
    drive(ScheduleMachine, number, examples)
    return (ScheduleMachine.events - before) / (clock() - start)
