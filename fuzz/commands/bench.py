"""`draftproof bench`: the performance table, all of it measured in one run."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Callable

from draftproof.fuzz.bench import failures, generation, lockstep, memory, throughput
from draftproof.fuzz.bench.figures import Figure, tables
from draftproof.fuzz.bench.sizes import FULL, QUICK, Sizes
from draftproof.fuzz.cli import TORCH_WORKER
from draftproof.fuzz.collector import calm_collector
from draftproof.sim.loading import load
from draftproof.sim.lockstep import MakeWorker

Measure = Callable[[Sizes, MakeWorker], list[Figure]]

PARTS: dict[str, Measure] = {
    lockstep.PART: lockstep.measure,
    generation.PART: lambda sizes, make: generation.measure(sizes),
    throughput.PART: throughput.measure,
    failures.PART: lambda sizes, make: failures.measure(sizes),
    memory.PART: lambda sizes, make: memory.measure(sizes),
}
DURATIONS = {"failures": "half an hour", "memory": "some minutes"}


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0, whatever the figures say; 4 if torch is not here."""
    make = load(TORCH_WORKER)
    _one_thread()
    calm_collector()  # as `draftproof check` does
    sizes = QUICK if arguments.quick else FULL
    figures: list[Figure] = []
    for name, measure in PARTS.items():
        if name in arguments.part:
            duration = "seconds" if arguments.quick else DURATIONS.get(name, "a minute")
            print(f"measuring {name} ({duration}) ...", file=sys.stderr, flush=True)
            figures += measure(sizes, make)
    if arguments.json:
        records = [figure.record() for figure in figures]
        print(json.dumps({"environment": environment(), "figures": records}, indent=1))
    else:
        print(", ".join(f"{name} {value}" for name, value in environment().items()), end="\n\n")
        print("\n".join(tables(figures)))
    return 0


def environment() -> dict[str, str | int]:
    """What the figures depend on."""
    return {
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
        "hypothesis": importlib.metadata.version("hypothesis"),
        "machine": platform.machine(),
        "cores": os.cpu_count() or 0,
    }


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
