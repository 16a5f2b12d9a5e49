"""How many steps a second are checked, with every oracle on."""

from __future__ import annotations

from statistics import median
from time import process_time as clock

from hypothesis import given, seed

from draftproof.fuzz.bench.figures import Figure, Goal
from draftproof.fuzz.bench.generation import ratio
from draftproof.fuzz.bench.sizes import Sizes
from draftproof.fuzz.bench.state_machine import LockstepMachine, drive, plain_settings
from draftproof.fuzz.bench.turns import Rate, in_turns
from draftproof.fuzz.cases import Subject, seeded_case
from draftproof.properties.strategies import runs
from draftproof.sim.lockstep import MakeWorker
from draftproof.sim.run import Run

PART = "throughput"
GOAL = Goal(1.2, at_least=True)


def measure(sizes: Sizes, make: MakeWorker) -> list[Figure]:
    """Rates of all three ways of driving, in turns."""
    subject, cases = Subject(make), sizes.checked_cases
    ways: dict[str, Rate] = {
        "seeded": lambda n: _seeded(subject, n, cases),
        "Hypothesis": lambda n: _hypothesis(subject, n, cases),
        "state machine": lambda n: _state_machine(subject, n, cases),
    }
    rates = in_turns(ways, sizes.repetitions)
    figures = [Figure(PART, "checked steps", way, median(rates[way]), "per s") for way in ways]
    for way in ("seeded", "Hypothesis"):
        figures.append(Figure(PART, "times the state machine", way, ratio(rates, way), "x", GOAL))
    return figures


def _seeded(subject: Subject, number: int, cases: int) -> float:
    start = clock()
    steps = sum(subject.judge(seeded_case(number, case)).steps for case in range(cases))
    return steps / (clock() - start)


def _hypothesis(subject: Subject, number: int, examples: int) -> float:
    steps = 0

    @seed(number)
    @plain_settings(examples)
    @given(runs())
    def example(run: Run) -> None:
        nonlocal steps
        steps += subject.judge(run).steps

    start = clock()
    example()
    return steps / (clock() - start)


def _state_machine(subject: Subject, number: int, examples: int) -> float:
    LockstepMachine.subject = subject
    before = LockstepMachine.forwards
    start = clock()
    drive(LockstepMachine, number, examples)
    return (LockstepMachine.forwards - before) / (clock() - start)
