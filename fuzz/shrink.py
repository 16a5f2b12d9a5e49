"""Makes a failing trace minimal and keeps its kind of failure.

Events are total, so deleting any of them leaves a trace. What else may make a trace smaller or
plainer is in `draftproof.fuzz.simpler`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from draftproof.fuzz import simpler
from draftproof.sim.traces import Trace, cut

Fails = Callable[[Trace], bool]


def shrink(trace: Trace, fails: Fails) -> Trace:
    """The smallest trace that still fails, as far as deleting and simplifying go.

    In the result, deleting any one event makes the failure vanish. `fails` must hold of `trace`.
    """
    while True:
        before = trace
        trace = _delete(trace, fails)
        for i in range(len(trace.events)):
            trace = _first_that_fails(trace, fails, partial(simpler.event, i))
        trace = _first_that_fails(trace, fails, simpler.config)
        trace = _first_that_fails(trace, fails, simpler.fewer_requests)
        trace = _first_that_fails(trace, fails, simpler.numbering)
        trace = _first_that_fails(trace, fails, simpler.fewer_ranks)
        if trace == before:
            return trace


def _delete(trace: Trace, fails: Fails) -> Trace:
    """Delete runs of events, long ones first, until no single one can go."""
    size = max(1, len(trace.events) // 2)
    while True:
        shorter = _delete_runs(trace, fails, size)
        if size > 1:
            size //= 2
        elif shorter == trace:
            return trace
        trace = shorter


def _delete_runs(trace: Trace, fails: Fails, size: int) -> Trace:
    end = len(trace.events)
    while end > 0:
        start = max(0, end - size)
        candidate = cut(trace, trace.events[:start] + trace.events[end:])
        if fails(candidate):
            trace = candidate
        end = start
    return trace


def _first_that_fails(
    trace: Trace, fails: Fails, candidates: Callable[[Trace], Iterator[Trace]]
) -> Trace:
    """Take simplifications as long as there is one that still fails."""
    while True:
        found = next((c for c in candidates(trace) if fails(c)), None)
        if found is None:
            return trace
        trace = found
