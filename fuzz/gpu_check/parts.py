"""The parts of the GPU check that are not commands already; each runs in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from time import monotonic
from typing import Any

from draftproof.fuzz.bench import kernels
from draftproof.fuzz.bench.figures import Figure, tables
from draftproof.fuzz.bench.sizes import FULL, QUICK
from draftproof.fuzz.cases import Subject
from draftproof.fuzz.cli import TORCH_WORKER
from draftproof.fuzz.defects.finding import find_hypothesis
from draftproof.fuzz.gpu_check.timings import Timing, measure, table
from draftproof.sim.loading import load

PROPERTY_SECONDS = 15
"""For each kind of kernels, the round under way when they are over not counted."""

PROPERTY_EXAMPLES = 4
"""A round."""


def properties(device: str, quick: bool) -> int:
    """The property of every schedule, drawn by Hypothesis: worker and model agree.

    In rounds, of another seed each, until the seconds of each are over: a new schedule means new
    kernels to compile and graphs to capture, and nobody knows how long that takes on the device.
    """
    told = []
    for kind in ("eager", "triton"):
        subject = Subject(load(TORCH_WORKER, device, {"graphs": "on", "kernels": kind}))
        start, rounds = monotonic(), 0
        while not rounds or (not quick and monotonic() - start < PROPERTY_SECONDS):
            found = find_hypothesis(subject, rounds, PROPERTY_EXAMPLES)
            rounds += 1
            if found is not None:
                print("\n".join(found.divergence.lines()))
                return 1
        told.append(f"{rounds * PROPERTY_EXAMPLES} examples of {kind}")
    print(f"{' and '.join(told)}, with graphs")
    return 0


def timings(device: str, quick: bool) -> int:
    """The last line is the figures."""
    _tell([timing] for timing in measure(device, quick))
    return 0


def ratios(device: str, quick: bool) -> int:
    """The part `kernels` of the bench, in less time; the last line is the figures."""
    sizes = QUICK if quick else replace(FULL, repetitions=3, turn=0.1)
    _tell(kernels.measure(sizes, device))
    return 0


def _tell(parts: Iterable[list[Any]]) -> None:
    """Print what has been measured so far, again and again: time may run out before the end."""
    records: list[dict[str, Any]] = []
    for part in parts:
        records += map(asdict, part)
        print(json.dumps(records), flush=True)


PARTS: dict[str, Callable[[str, bool], int]] = {
    "properties": properties,
    "timings": timings,
    "kernels": ratios,
}
"""Each takes a device and whether to be quick, and returns an exit code."""


def measured(name: str, records: list[dict[str, Any]]) -> list[str]:
    """What a part that measures has printed, for people."""
    if name == "timings":
        return table([Timing(**record) for record in records])
    return tables([Figure(**record) for record in records])
