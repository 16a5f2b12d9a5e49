"""Steps that each driver has checked in a second, with coverage, and what more workers bring."""

from __future__ import annotations

import random
from collections.abc import Callable
from statistics import median
from time import perf_counter
from time import process_time as clock

from draftproof.fuzz.bench.figures import Figure, Goal
from draftproof.fuzz.bench.sizes import Sizes
from draftproof.fuzz.bench.turns import in_turns
from draftproof.fuzz.campaign.chunks import CASES, DRIVERS, Task
from draftproof.fuzz.campaign.pool import Failed, Pool
from draftproof.fuzz.cases import Subject
from draftproof.fuzz.coverage.observe import observe
from draftproof.fuzz.driving.raw import fuzz_one_input
from draftproof.sim.engine import Engine
from draftproof.sim.lockstep import MakeWorker
from draftproof.sim.run import Run

PART = "drivers"
OVERHEAD = Goal(25.0)
"""Percent of what checking takes without coverage."""
WORKERS = (1, 2)
MEMORY = 4096
IMPLEMENTATION = "draftproof.gpu.worker:make"


def measure(sizes: Sizes, make: MakeWorker) -> list[Figure]:
    """Rates and overheads of the drivers in turns; then the same campaign with more workers."""
    meters = {name: _Meter(Subject(make)) for name in (*DRIVERS, "bytes")}
    ways = {name: _way(meters[name], name, sizes.checked_cases) for name in meters}
    rates = in_turns(ways, sizes.repetitions)
    figures = [Figure(PART, "checked steps", name, median(rates[name]), "per s") for name in ways]
    figures += [
        Figure(PART, "coverage", name, 100 * median(meter.shares), "%", OVERHEAD)
        for name, meter in meters.items()
    ]
    pools = {str(n): _several(n, sizes) for n in WORKERS}
    several = in_turns(pools, max(1, sizes.repetitions // 2))
    single = several[str(WORKERS[0])]
    for name, own in several.items():
        column = f"{name} worker{'s' if name != '1' else ''}"
        times = median(rate / one for rate, one in zip(own, single, strict=True))
        figures.append(Figure(PART, "checked steps on the clock", column, median(own), "per s"))
        figures.append(Figure(PART, "times one worker", column, times, "x"))
    return figures


class _Meter:
    """Counts checked steps, and what looking at them for coverage takes beside checking."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.shares: list[float] = []
        self._steps = 0
        self._coverage = 0.0

    def see(self, run: Run) -> None:
        """A run that was checked."""
        start = clock()
        observe(run)
        self._coverage += clock() - start
        self._steps += len(run.steps)

    def rate(self, work: Callable[[], None]) -> float:
        """Steps per second of some work, which tells of each run."""
        self._steps, self._coverage = 0, 0.0
        start = clock()
        work()
        total = clock() - start
        self.shares.append(self._coverage / (total - self._coverage))
        return self._steps / total


def _way(meter: _Meter, name: str, cases: int) -> Callable[[int], float]:
    if name == "bytes":
        return lambda number: meter.rate(lambda: _bytes(meter, number, cases))

    def work(number: int) -> None:
        for index in range(cases):
            run = DRIVERS[name](number, index, Engine)
            meter.subject.judge(run)
            meter.see(run)

    return lambda number: meter.rate(lambda: work(number))


def _bytes(meter: _Meter, number: int, cases: int) -> None:
    chance, one = random.Random(number), fuzz_one_input(meter.subject, meter.see)
    for _ in range(cases):
        one(chance.randbytes(400))


def _several(workers: int, sizes: Sizes) -> Callable[[int], float]:
    return lambda number: _pool(number, workers, sizes)


def _pool(number: int, workers: int, sizes: Sizes) -> float:
    """Steps a second on the clock, once every process has imported what it needs."""
    chunks = max(2, sizes.checked_cases // CASES)
    with Pool(workers, MEMORY) as pool:
        list(pool.run(Task(n, IMPLEMENTATION, n * CASES) for n in range(workers)))
        tasks = (Task(n, IMPLEMENTATION, n * CASES, seed=1 + number) for n in range(2 * chunks))
        start = perf_counter()
        results = list(pool.run(tasks))
        seconds = perf_counter() - start
    return sum(r.coverage.steps for r in results if not isinstance(r, Failed)) / seconds
