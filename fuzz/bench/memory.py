"""Whether a long campaign grows: memory that `draftproof check` has in use while it runs.

Resident memory would not tell. It keeps the highest mark of the largest case so far, and what an
allocator keeps in between: it went up by 4 MiB while not a byte more was in use.
"""

from __future__ import annotations

import os
import subprocess
import sys

from draftproof.fuzz.bench.figures import Figure, Goal
from draftproof.fuzz.bench.sizes import Sizes
from draftproof.sim.errors import NoVerdict

PART = "memory"
TOLERANCE = Goal(1.0)
"""MiB. The least that is in use differs by a few tenths; 11 bytes lost in each step are more."""

SAMPLES = 10
"""From the first and from the last tenth of the steps. The least counts, since the others hold most
of a case."""


def measure(sizes: Sizes, *words: str) -> list[Figure]:
    """Growth from the first tenth of the steps behind the warm-up to the last tenth.

    words: more of them for `check`.
    """
    every = sizes.steps // (10 * SAMPLES)
    seen = watch_campaign(sizes.warm_steps + sizes.steps, every, *words)
    behind = [mebibytes for steps, mebibytes in seen if steps > sizes.warm_steps]
    early, late = min(behind[:SAMPLES]), min(behind[-SAMPLES:])
    where = f"after {sizes.warm_steps:,} steps"
    growth = f"growth in {sizes.steps:,} more"
    return [
        Figure(PART, f"in use {where}", "campaign", early, "MiB"),
        Figure(PART, growth, "campaign", late - early, "MiB", TOLERANCE),
    ]


def watch_campaign(steps: int, every: int, *words: str) -> list[tuple[int, float]]:
    """Steps so far and MiB in use, again and again, of a campaign in a process of its own."""
    command = [sys.executable, "-m", "draftproof.fuzz.bench.campaign", str(steps), str(every)]
    done = subprocess.run(
        [*command, *words],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONMALLOC": "malloc"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NoVerdict(f"memory: the campaign ended with exit code {done.returncode}")
    lines = (line.split() for line in done.stdout.splitlines())
    return [(int(count), float(mebibytes)) for count, mebibytes in lines]
