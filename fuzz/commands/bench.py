"""`draftproof bench`: the performance table, all of it measured in one run."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Callable
from itertools import chain

from draftproof.fuzz.bench import (
    drivers,
    failures,
    generation,
    kernels,
    lockstep,
    memory,
    throughput,
)
from draftproof.fuzz.bench.figures import Figure, tables
from draftproof.fuzz.bench.sizes import FULL, QUICK, Sizes
from draftproof.fuzz.cli import TORCH_WORKER
from draftproof.fuzz.collector import calm_collector
from draftproof.sim.loading import load
from draftproof.sim.lockstep import MakeWorker

Measure = Callable[[Sizes, MakeWorker, str], list[Figure]]

PARTS: dict[str, Measure] = {
    lockstep.PART: lambda sizes, make, device: lockstep.measure(sizes, make),
    generation.PART: lambda sizes, make, device: generation.measure(sizes),
    throughput.PART: lambda sizes, make, device: throughput.measure(sizes, make),
    failures.PART: lambda sizes, make, device: failures.measure(sizes),
    memory.PART: lambda sizes, make, device: memory.measure(sizes),
    drivers.PART: lambda sizes, make, device: drivers.measure(sizes, make),
    kernels.PART: lambda sizes, make, device: list(chain(*kernels.measure(sizes, device))),
}
DURATIONS = dict.fromkeys(("failures", "memory", "drivers"), "some minutes")


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
            figures += measure(sizes, make, arguments.device)
    about = environment(arguments.device)
    if arguments.json:
        records = [figure.record() for figure in figures]
        print(json.dumps({"environment": about, "figures": records}, indent=1))
    else:
        print(", ".join(f"{name} {value}" for name, value in about.items()), end="\n\n")
        print("\n".join(tables(figures)))
    return 0


def environment(device: str) -> dict[str, str | int]:
    """What the figures depend on; device: that of the part `kernels`."""
    return {
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
        "hypothesis": importlib.metadata.version("hypothesis"),
        "machine": platform.machine(),
        "cores": os.cpu_count() or 0,
        "device": _device_name(device),
    }


def _device_name(device: str) -> str:
    if device == "cpu":
        return device
    import torch

    return torch.cuda.get_device_name()


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
