"""The parts of the GPU check that are not commands already; each runs in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from draftproof.fuzz.bench import kernels
from draftproof.fuzz.bench.figures import Figure, tables
from draftproof.fuzz.bench.sizes import FULL, QUICK
from draftproof.fuzz.cases import Subject
from draftproof.fuzz.cli import TORCH_WORKER
from draftproof.fuzz.drivers import find_hypothesis
from draftproof.fuzz.gpu_timings import Timing, measure, table
from draftproof.sim.loading import load


def properties(device: str, quick: bool) -> int:
    """The property of every schedule, drawn by Hypothesis: worker and model agree."""
    examples = 5 if quick else 60
    for options in ({"graphs": "on"}, {"graphs": "on", "kernels": "triton"}):
        if quick and "kernels" in options:
            examples = 1
        subject = Subject(load(TORCH_WORKER, device, options))
        found = find_hypothesis(subject, 0, examples)
        if found is not None:
            print("\n".join(found.divergence.lines()))
            return 1
    print(f"{examples} examples each of eager and Triton, with graphs")
    return 0


def timings(device: str, quick: bool) -> int:
    """The last line is the figures."""
    print(json.dumps([asdict(timing) for timing in measure(device, quick)]))
    return 0


def ratios(device: str, quick: bool) -> int:
    """The part `kernels` of the bench, in less time; the last line is the figures."""
    sizes = QUICK if quick else replace(FULL, repetitions=3, turn=0.1)
    print(json.dumps([asdict(figure) for figure in kernels.measure(sizes, device)]))
    return 0


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
