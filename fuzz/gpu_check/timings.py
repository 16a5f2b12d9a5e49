"""How long prepare and forward of one generation step take: eager, Triton, and replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from time import perf_counter

from draftproof.fuzz.cli import TORCH_WORKER
from draftproof.reference.drafter import make_drafter
from draftproof.reference.vocabulary import Batch, Collaborators, Config, Worker
from draftproof.sim.events import AnyEvent, Step, Submit
from draftproof.sim.loading import load
from draftproof.sim.run import Run, replay

SETTINGS = (("eager", "off"), ("eager", "on"), ("triton", "off"), ("triton", "on"))


@dataclass(frozen=True, slots=True)
class Timing:
    """Medians in microseconds.

    prepare, forward: until the call returns; step: both, until the device has finished.
    """

    kernels: str
    graphs: str
    rows: int
    prepare: float
    forward: float
    step: float


def measure(device: str, quick: bool) -> Iterator[Timing]:
    """All settings, on one batch of each size; interpreted kernels are not worth a measurement."""
    sizes, repeats = ((4,), 5) if quick else ((8, 64), 200)
    for rows in sizes:
        run = generation_steps(rows, quick)
        for kernels, graphs in SETTINGS:
            if device != "cpu" or kernels != "triton":
                yield _measured(device, kernels, graphs, run, repeats)


def generation_steps(rows: int, quick: bool) -> Run:
    """Prompts of half a window, then a step of `rows` generations that a graph can replay."""
    config = Config(
        max_draft_len=5,
        window_size=16 if quick else 128,
        num_stages=3,
        max_num_requests=rows,
        vocab_size=1024,
        graph_batch_sizes=(rows,),
    )
    prompt = config.window_size // 2
    events: list[AnyEvent] = [Submit(i, prompt=prompt, limit=1000) for i in range(rows)]
    return replay(config, [*events, Step(), Step(graph=True, accepts=(2, 0, 5))])


def _measured(device: str, kernels: str, graphs: str, run: Run, repeats: int) -> Timing:
    make = load(TORCH_WORKER, device, {"kernels": kernels, "graphs": graphs})
    worker = make(run.config, Collaborators(lambda seam: None, make_drafter(run.config)))
    for expected in run.steps:
        worker.prepare(expected.batch)
        worker.forward(expected.batch)
    batch, wait = run.steps[-1].batch, _waiting(device)
    assert batch.mode == "replay"
    for _ in range(max(3, repeats // 10)):
        _timed(worker, batch, wait)
    times = [_timed(worker, batch, wait) for _ in range(repeats)]
    prepare, forward, step = (round(1e6 * median(column), 1) for column in zip(*times, strict=True))
    return Timing(kernels, graphs, len(batch.generations), prepare, forward, step)


def _timed(worker: Worker, batch: Batch, wait: Callable[[], None]) -> tuple[float, float, float]:
    """Seconds of one step; the same batch again is a step like any other."""
    wait()
    start = perf_counter()
    worker.prepare(batch)
    prepared = perf_counter()
    worker.forward(batch)
    returned = perf_counter()
    wait()
    return prepared - start, returned - prepared, perf_counter() - start


def _waiting(device: str) -> Callable[[], None]:
    if device == "cpu":
        return lambda: None
    import torch

    return torch.cuda.synchronize


def table(timings: list[Timing]) -> list[str]:
    """For people."""
    if not timings:
        return []
    heading = f"{'microseconds':<22} {'rows':>5} {'prepare':>9} {'forward':>9} {'step':>9}"
    return [
        heading,
        *(
            f"{t.kernels + ', graphs ' + t.graphs:<22} {t.rows:>5} "
            f"{t.prepare:>9.1f} {t.forward:>9.1f} {t.step:>9.1f}"
            for t in timings
        ),
    ]
