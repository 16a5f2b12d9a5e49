"""Whether a long campaign grows: resident memory of `draftproof check` while it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median

from draftproof.fuzz.bench.figures import Figure, Goal
from draftproof.fuzz.bench.sizes import Sizes
from draftproof.sim.errors import NoVerdict

PART = "memory"
TOLERANCE = Goal(2.0)
"""MiB. Memory comes and goes by whole arenas of the allocator, 1 MiB each, so it moves by one or
two without any leak; one of 30 bytes a step would show as more."""

SAMPLES = 10
"""From the first and from the last tenth of the steps, of which the median counts."""


def measure(sizes: Sizes) -> list[Figure]:
    """Growth from the first tenth of the steps behind the warm-up to the last tenth."""
    every = sizes.steps // (10 * SAMPLES)
    seen = watch_campaign(sizes.warm_steps + sizes.steps, every)
    behind = [mebibytes for steps, mebibytes in seen if steps > sizes.warm_steps]
    early, late = median(behind[:SAMPLES]), median(behind[-SAMPLES:])
    where = f"after {sizes.warm_steps:,} steps"
    growth = f"growth in {sizes.steps:,} more"
    return [
        Figure(PART, f"resident {where}", "campaign", early, "MiB"),
        Figure(PART, growth, "campaign", late - early, "MiB", TOLERANCE),
    ]


def watch_campaign(steps: int, every: int) -> list[tuple[int, float]]:
    """Steps so far and MiB resident, again and again, of a campaign in a process of its own."""
    command = [sys.executable, "-m", "draftproof.fuzz.bench.campaign", str(steps), str(every)]
    done = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NoVerdict(f"memory: the campaign ended with exit code {done.returncode}")
    lines = (line.split() for line in done.stdout.splitlines())
    return [(int(count), float(mebibytes)) for count, mebibytes in lines]
