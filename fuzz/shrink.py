"""Makes a failing trace minimal and keeps its kind of failure.

Events are total, so deleting any of them leaves a trace; that is all the cleverness there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, replace
from functools import partial
from typing import Any

import msgspec

from draftproof.reference.config import checked
from draftproof.reference.vocabulary import Config, ConfigError
from draftproof.sim.events import AnyEvent
from draftproof.sim.traces import Trace, cut

Fails = Callable[[Trace], bool]

SMALLER = ("num_stages", "max_draft_len", "window_size", "max_num_requests", "vocab_size")
PLAIN = tuple(
    field.name
    for field in fields(Config)
    if field.default is not MISSING and field.name not in (*SMALLER, "block_size")
)
"""What is tried at its default; the block size follows `max_draft_len`."""


def shrink(trace: Trace, fails: Fails) -> Trace:
    """The smallest trace that still fails, as far as deleting and simplifying go.

    In the result, deleting any one event makes the failure vanish. `fails` must hold of `trace`.
    """
    while True:
        before = trace
        trace = _delete(trace, fails)
        for i in range(len(trace.events)):
            trace = _first_that_fails(trace, fails, partial(_simpler_events, i))
        trace = _first_that_fails(trace, fails, _simpler_configs)
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
        simpler = next((c for c in candidates(trace) if fails(c)), None)
        if simpler is None:
            return trace
        trace = simpler


def _simpler_events(i: int, trace: Trace) -> Iterator[Trace]:
    """The trace with event i simpler."""
    for simpler in _simpler_event(trace.events[i]):
        yield cut(trace, (*trace.events[:i], simpler, *trace.events[i + 1 :]))


def _simpler_event(event: AnyEvent) -> Iterator[AnyEvent]:
    """The event with one field at its default, or one number or one tuple smaller."""
    for info in msgspec.structs.fields(event):
        value = getattr(event, info.name)
        if info.required or value == info.default:
            continue
        options: list[Any] = [info.default]
        if isinstance(value, int) and not isinstance(value, bool):
            base = info.default if isinstance(info.default, int) else 0
            options += _between(base, value)
        if isinstance(value, tuple):
            options.append(value[:-1])
            options += [
                (*value[:i], v, *value[i + 1 :])
                for i, number in enumerate(value)
                for v in {number // 2, number - 1}
                if (info.name == "accepts" and 0 <= v < number) or 1 <= v < number
            ]
        for option in options:
            if option != value:
                yield msgspec.structs.replace(event, **{info.name: option})


def _between(base: int, value: int) -> Iterator[int]:
    """Halfway from the value to the base, then nearer to the value, at last beside it."""
    gap = value - base
    while gap > 1:
        gap //= 2
        yield value - gap


def _simpler_configs(trace: Trace) -> Iterator[Trace]:
    defaults = {field.name: field.default for field in fields(Config)}
    config = trace.config
    changes: list[dict[str, Any]] = [
        {name: defaults[name]} for name in PLAIN if getattr(config, name) != defaults[name]
    ]
    pairs = config.draft_len_schedule or ()
    for name in SMALLER:
        value = getattr(config, name)
        for smaller in {1, value // 2, value - 1}:
            if smaller < value:
                changes.append({name: smaller})
                if name == "max_draft_len" and pairs:
                    shorter = tuple((threshold, min(r, smaller)) for threshold, r in pairs)
                    changes[-1]["draft_len_schedule"] = shorter
    changes += [{"draft_len_schedule": pairs[:i] + pairs[i + 1 :]} for i in range(1, len(pairs))]
    for change in changes:
        try:
            simpler = checked(replace(config, block_size=None, **change))
        except ConfigError:
            continue
        yield msgspec.structs.replace(trace, config=simpler)
