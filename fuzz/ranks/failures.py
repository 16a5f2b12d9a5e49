"""What happens to a failing case of several ranks: saved, shrunk, saved again."""

from __future__ import annotations

import argparse

import msgspec

from draftproof.fuzz.failures import examine, save_new
from draftproof.fuzz.ranks.cases import RankSubject
from draftproof.sim.divergence import Divergence
from draftproof.sim.ranks import World
from draftproof.sim.traces import Trace


def trace_of(arguments: argparse.Namespace, world: World) -> Trace:
    """The world's schedule, and what is tested on it."""
    return Trace(
        config=world.config,
        events=tuple(world.events),
        implementation=arguments.implementation,
        options=arguments.option,
        device=arguments.device,
        ranks=len(world.ranks),
    )


def tell_failure(
    arguments: argparse.Namespace, subject: RankSubject, trace: Trace, divergence: Divergence
) -> int:
    """Save first, then shrink: a failure is never lost. Returns the exit code."""
    stem = f"ranks-{divergence.oracle}-seed{arguments.seed}"
    whole = msgspec.structs.replace(trace, failure=divergence.signature)
    print(f"found a failure, saved as {save_new(whole, arguments.trace_dir, stem)}; shrinking")
    failure = examine(subject, trace, divergence)
    path = save_new(failure.trace, arguments.trace_dir, f"{stem}-minimal")
    print("\n".join(failure.lines(path, arguments.step_timeout)))
    return divergence.exit_code
