"""`draftproof explore`: every schedule of a small scope, in lockstep, with exact counts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from time import perf_counter

from draftproof.fuzz.cases import Subject
from draftproof.fuzz.collector import calm_collector
from draftproof.fuzz.explore.scope import Scope
from draftproof.fuzz.explore.search import Explored, Path, Search
from draftproof.fuzz.failures import save_new
from draftproof.fuzz.report import failure_report
from draftproof.fuzz.supervise import Beacon, supervised
from draftproof.reference.vocabulary import ConfigError
from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import MISSED, ImplementationError, UsageError
from draftproof.sim.events import FAULTS
from draftproof.sim.files import check_writable
from draftproof.sim.loading import load
from draftproof.sim.traces import Trace


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 if every schedule is right, 1 (the first wrong one is saved), 2, 4 or 6 (counts
    that are not those expected)."""
    return supervised(arguments, _explore)


def _explore(arguments: argparse.Namespace, beacon: Beacon) -> int:
    scope = _scope(arguments)
    check_writable(arguments.trace_dir)
    make = load(arguments.implementation, arguments.device, arguments.option)
    calm_collector()
    subject = Subject(make, step_timeout=arguments.step_timeout, alive=beacon.beat)

    def show(path: Path) -> None:
        beacon.show(_trace(arguments, scope, path))

    same = "up to the names of requests and slots" if arguments.symmetry else "byte for byte"
    print(
        f"exploring {arguments.implementation} on {arguments.device}, states merge {same}",
        flush=True,
    )
    start = perf_counter()
    search = Search(scope, subject, arguments.symmetry, show)
    try:
        explored = search.go(lambda so_far: _progress(so_far, perf_counter() - start))
    except ConfigError as error:
        raise ImplementationError(
            f"the implementation does not support the configuration of this scope: {error}"
        ) from error
    print("\n".join(_lines(explored)))
    if explored.failure is not None:
        return _tell_failure(arguments, scope, beacon, *explored.failure)
    print(f"no difference found in {perf_counter() - start:.1f} s")
    return _compare(explored, arguments.expect)


def _compare(explored: Explored, expected: Sequence[int] | None) -> int:
    """Moves that are lost make an exploration smaller, and nothing else tells."""
    found = (explored.edges, explored.states, explored.model_states)
    if expected is None or found == tuple(expected):
        return 0
    wanted = " ".join(map(str, expected))
    print(f"a coverage goal was missed: expected {wanted}, counted {' '.join(map(str, found))}")
    return MISSED


def _scope(arguments: argparse.Namespace) -> Scope:
    """The scope asked for. Raises UsageError if there is none."""
    if arguments.seam not in ("none", *FAULTS):
        raise UsageError(f"no seam {arguments.seam!r}; there are {', '.join(FAULTS)}, and none")
    scope = Scope(
        requests=arguments.requests,
        lives=arguments.lives,
        slots=arguments.requests,
        block=arguments.block,
        window=arguments.window,
        stages=arguments.stages,
        depth=arguments.events,
        limit=arguments.limit,
        seam=None if arguments.seam == "none" else arguments.seam,
        subsets=arguments.subsets,
    )
    try:
        scope.config()
    except ConfigError as error:
        raise UsageError(f"there is no such scope: {error}") from error
    return scope


def _trace(arguments: argparse.Namespace, scope: Scope, path: Path) -> Trace:
    return Trace(
        config=scope.config(),
        events=path,
        implementation=arguments.implementation,
        options=arguments.option,
        device=arguments.device,
    )


def _lines(explored: Explored) -> list[str]:
    levels = ", ".join(f"{count:,}" for count in explored.levels)
    return [
        f"edges            {explored.edges:,}",
        f"states           {explored.states:,}: {levels} new after 0, 1, ... moves",
        f"model states     {explored.model_states:,}",
    ]


def _progress(explored: Explored, seconds: float) -> None:
    depth = len(explored.levels) - 1
    text = f"{depth} moves: {explored.edges:,} edges, {explored.states:,} states, {seconds:.0f} s"
    print(text, file=sys.stderr, flush=True)


def _tell_failure(
    arguments: argparse.Namespace,
    scope: Scope,
    beacon: Beacon,
    path: Path,
    divergence: Divergence,
) -> int:
    """A shortest failing schedule as it is: nothing that was explored is shorter."""
    beacon.go_home()
    trace = _trace(arguments, scope, path)
    saved = save_new(trace, arguments.trace_dir, f"explored-{divergence.oracle}")
    print("\n".join(failure_report(divergence, trace, saved, arguments.step_timeout)))
    return 1
