"""How soon the planted defects are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from statistics import median
from time import process_time as clock
from typing import ClassVar

from hypothesis.stateful import invariant

from draftproof.fuzz.bench.figures import Figure, Goal, geometric_mean
from draftproof.fuzz.bench.sizes import Sizes
from draftproof.fuzz.bench.state_machine import LockstepMachine, drive
from draftproof.fuzz.cases import Subject
from draftproof.fuzz.defects.catalogue import CORE, Defect
from draftproof.fuzz.defects.finding import find_hypothesis, find_seeded
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import AnyEvent
from draftproof.sim.lockstep import Checked
from draftproof.sim.run import Run

PART = "failures"
MEAN, NEVER_SLOWER = Goal(5.0, at_least=True), Goal(1.0, at_least=True)
STEPS, EXAMPLES = 4_000, 200
"""What one search looks at before the next seed; a search is given up between them."""


class Search:
    """A stopwatch that stops at the first failure."""

    def __init__(self, cap: float) -> None:
        self.cap, self.start = cap, clock()
        self.seconds: float | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """What fails in here is the failure looked for; the first one counts."""
        try:
            yield
        except Divergence:
            if self.seconds is None:
                self.seconds = clock() - self.start
            raise

    def seeds(self, first: int) -> Iterator[int]:
        """Seeds of its own, until something is found or time is up."""
        number = 1000 * first
        while self.seconds is None and clock() - self.start < self.cap:
            yield number
            number += 1

    def outcome(self) -> float:
        """Seconds until the failure, at most the cap."""
        return self.cap if self.seconds is None else min(self.cap, self.seconds)


@dataclass(frozen=True, slots=True)
class Watched(Subject):
    """A subject that says when something is found."""

    search: Search = field(kw_only=True)

    def judge(self, run: Run) -> Checked:
        """Every oracle on one run. Raises the first Divergence."""
        with self.search.watching():
            return Subject.judge(self, run)


class Machine(LockstepMachine):
    """The state machine, saying when something is found, wherever that is."""

    search: ClassVar[Search]

    def happen(self, event: AnyEvent) -> None:
        with self.search.watching():
            super().happen(event)

    @invariant()
    def all_is_well(self) -> None:
        with self.search.watching():
            super().all_is_well()

    def teardown(self) -> None:
        with self.search.watching():
            super().teardown()


def measure(sizes: Sizes) -> list[Figure]:
    """Per defect the median over seeds of each way; then the ratios, and the worst of them."""
    defects = CORE[: sizes.defects]
    time_defect(defects[0], sizes)  # not counted: what a process does once is done here
    figures: list[Figure] = []
    ratios: dict[str, list[float]] = {"seeded": [], "Hypothesis": []}
    for defect in defects:
        seconds = {way: median(times) for way, times in time_defect(defect, sizes).items()}
        figures += [Figure(PART, defect.name, way, s, "s") for way, s in seconds.items()]
        for way, of_defects in ratios.items():
            of_defects.append(seconds["state machine"] / seconds[way])
            figures.append(Figure(PART, defect.name, f"machine / {way}", of_defects[-1], "x"))
    for way, of_defects in ratios.items():
        mean, worst = geometric_mean(of_defects), min(of_defects)
        figures.append(Figure(PART, "geometric mean", f"machine / {way}", mean, "x", MEAN))
        figures.append(Figure(PART, "worst", f"machine / {way}", worst, "x", NEVER_SLOWER))
    return figures


def time_defect(defect: Defect, sizes: Sizes) -> dict[str, list[float]]:
    """Seconds until a defect is found, per way and seed."""
    subject = defect.subject()
    ways: dict[str, Callable[[Subject, int, float], float]] = {
        "seeded": _seeded,
        "Hypothesis": _hypothesis,
        "state machine": _state_machine,
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for seed in range(sizes.seeds):
        for way, look in ways.items():
            seconds[way].append(look(subject, seed, sizes.cap))
    return seconds


def _seeded(subject: Subject, seed: int, cap: float) -> float:
    search = Search(cap)
    watched = Watched(subject.make, subject.make_engine, search=search)
    for number in search.seeds(seed):
        find_seeded(watched, number, STEPS)
    return search.outcome()


def _hypothesis(subject: Subject, seed: int, cap: float) -> float:
    search = Search(cap)
    watched = Watched(subject.make, subject.make_engine, search=search)
    for number in search.seeds(seed):
        find_hypothesis(watched, number, EXAMPLES)
    return search.outcome()


def _state_machine(subject: Subject, seed: int, cap: float) -> float:
    search = Machine.search = Search(cap)
    Machine.subject = subject
    for number in search.seeds(seed):
        with suppress(Divergence):
            drive(Machine, number, EXAMPLES)
    return search.outcome()
