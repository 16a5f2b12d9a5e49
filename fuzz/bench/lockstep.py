"""What the lockstep costs beside the implementation that it checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import thread_time as clock

from draftproof.fuzz.bench.figures import Figure, Goal
from draftproof.fuzz.bench.sizes import Sizes
from draftproof.fuzz.cases import watches
from draftproof.reference.vocabulary import (
    Batch,
    Collaborators,
    Config,
    StepResult,
    Worker,
    WorkerState,
)
from draftproof.sim.choices import Seeded
from draftproof.sim.events import AnyEvent, Step, Submit
from draftproof.sim.journal import Entry
from draftproof.sim.lockstep import MakeWorker, Watch, check
from draftproof.sim.packing import isolated, poison
from draftproof.sim.run import replay

PART = "lockstep"
SHAPES = ((16, 8, Goal(2.5)), (16, 64, Goal(5.0)), (128, 8, None), (128, 64, None))
"""Window, requests at a time, and what the whole may cost in times of the implementation."""
BLOCK, STAGES = 5, 3
UNIT = "us per request-step"
STEP_TIMEOUT = 60.0
"""Seconds, as `draftproof check` has it."""


@dataclass(slots=True)
class TimedWorker:
    """The implementation, with a stopwatch on each of its methods."""

    worker: Worker
    forwards: float = 0.0
    states: float = 0.0

    def prepare(self, batch: Batch) -> None:
        """Counts as part of the forward."""
        start = clock()
        self.worker.prepare(batch)
        self.forwards += clock() - start

    def forward(self, batch: Batch) -> StepResult:
        """One step."""
        start = clock()
        result = self.worker.forward(batch)
        self.forwards += clock() - start
        return result

    def state(self) -> WorkerState:
        """What the harness asks for, so it is the harness that pays."""
        start = clock()
        state = self.worker.state()
        self.states += clock() - start
        return state


@dataclass(slots=True)
class TimedWatch:
    """A watch with a stopwatch."""

    watch: Watch
    seconds: float = 0.0

    def step(self, entries: Sequence[Entry], state: WorkerState | None) -> None:
        """One step."""
        start = clock()
        self.watch.step(entries, state)
        self.seconds += clock() - start


@dataclass(slots=True)
class Sample:
    """One run: seconds in all and in the implementation, and what the harness spent them on."""

    total: float
    worker: float
    rows: int
    steps: int
    mixed: int
    harness: dict[str, float] = field(default_factory=dict)


def measure(sizes: Sizes, make: MakeWorker) -> list[Figure]:
    """Medians over repetitions, each of which goes through all shapes."""
    samples: dict[tuple[int, int], list[Sample]] = {}
    for _ in range(sizes.repetitions):
        for window, requests, _ in SHAPES:
            sample = run_once(window, requests, sizes.request_steps // requests, make)
            samples.setdefault((window, requests), []).append(sample)
    return [
        figure
        for window, requests, goal in SHAPES
        for figure in _figures(f"W={window}, {requests} requests", samples[window, requests], goal)
    ]


def run_once(window: int, requests: int, steps: int, make: MakeWorker) -> Sample:
    """Simulate and check one schedule, with every oracle on."""
    config = Config(BLOCK, window, STAGES, requests)
    events = steady_schedule(requests, steps)
    made: list[TimedWorker] = []

    def make_timed(config: Config, collaborators: Collaborators) -> Worker:
        made.append(TimedWorker(make(config, collaborators)))
        return made[-1]

    timed = [TimedWatch(watch) for watch in watches(config)]
    start = clock()
    run = replay(config, events)
    simulated = clock()
    check(run, make_timed, timed, STEP_TIMEOUT)
    checked = clock()
    for expected in run.steps:
        poison(isolated(expected.batch))
    isolation = clock() - checked
    (worker,) = made
    sample = Sample(
        total=checked - start,
        worker=worker.forwards,
        rows=sum(row.incarnation > 0 for expected in run.steps for row in expected.batch.rows),
        steps=len(run.steps),
        mixed=sum(bool(e.batch.contexts and e.batch.generations) for e in run.steps),
    )
    sample.harness = {
        "engine and model": simulated - start,
        "invariants": sum(watch.seconds for watch in timed),
        "isolation": isolation,
        "state()": worker.states,
    }
    spent = sum(sample.harness.values())
    sample.harness["comparison and the rest"] = sample.total - sample.worker - spent
    return sample


def steady_schedule(requests: int, steps: int) -> list[AnyEvent]:
    """Requests that stay for some sixty steps each, replaced as they leave, so batches are full."""
    choices = Seeded(requests)
    waiting = requests // 4
    submits = _submits(choices)
    events: list[AnyEvent] = [next(submits) for _ in range(requests + waiting)]
    for _ in range(steps):
        if choices.below(60) < requests:
            events.append(next(submits))
        events.append(
            Step(
                accepts=tuple(choices.below(BLOCK + 1) for _ in range(3)),
                draft_len=None if choices.below(8) else choices.below(BLOCK),
                chunk=0 if choices.below(4) else 8,
                rotate=choices.below(3),
            )
        )
    return events


def _submits(choices: Seeded) -> Iterator[Submit]:
    ordinal = 0
    while True:
        prompt, limit = 8 + choices.below(24), 100 + choices.below(200)
        yield Submit(ordinal, prompt=prompt, limit=limit)
        ordinal += 1


def _figures(shape: str, samples: Sequence[Sample], goal: Goal | None) -> Iterator[Figure]:
    ratio = median(sample.total / sample.worker for sample in samples)
    yield Figure(PART, "whole / worker", shape, ratio, "x", goal)
    harness = median((s.total - s.worker) / s.rows for s in samples)
    yield Figure(PART, "harness", shape, 1e6 * harness, UNIT)
    for name in samples[0].harness:
        share = median(sample.harness[name] / sample.rows for sample in samples)
        yield Figure(PART, f"- {name}", shape, 1e6 * share, UNIT)
    worker = median(sample.worker / sample.rows for sample in samples)
    yield Figure(PART, "worker", shape, 1e6 * worker, UNIT)
    first = samples[0]
    yield Figure(PART, "request-steps a step", shape, first.rows / first.steps, "rows")
    yield Figure(PART, "mixed steps", shape, 100 * first.mixed / first.steps, "%")
