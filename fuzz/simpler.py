"""What may be simpler about a trace: candidates for `draftproof.fuzz.shrink`, boldest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, replace
from itertools import combinations
from typing import Any

import msgspec

from draftproof.reference.config import checked
from draftproof.reference.vocabulary import Config, ConfigError
from draftproof.sim.events import Step, Submit, Warmup
from draftproof.sim.faults import PLACES
from draftproof.sim.rank_events import EveryEvent, On, Together
from draftproof.sim.run import replay
from draftproof.sim.traces import Trace, cut

SMALLER = ("num_stages", "max_draft_len", "window_size", "max_num_requests", "vocab_size")
PLAIN = tuple(
    field.name
    for field in fields(Config)
    if field.default is not MISSING and field.name not in (*SMALLER, "block_size")
)
"""What is tried at its default; the block size follows `max_draft_len`."""


def fewer_requests(trace: Trace) -> Iterator[Trace]:
    """The trace without one of its requests, or with two of them made one."""
    ordinals = _ordinals(trace)
    for gone in reversed(ordinals):
        yield cut(trace, [event for event in trace.events if _ordinal(event) != gone])
    for kept, gone in combinations(ordinals, 2):
        others = [e for e in trace.events if not (isinstance(e, Submit) and e.request == gone)]
        yield _renamed(cut(trace, others), {gone: kept})


def numbering(trace: Trace) -> Iterator[Trace]:
    """The trace with the requests counted from 0, or one of them with a lower free number."""
    ordinals = _ordinals(trace)
    names = {ordinal: number for number, ordinal in enumerate(ordinals)}
    if any(ordinal != number for ordinal, number in names.items()):
        yield _renamed(trace, names)
    for ordinal in ordinals:
        free = next(n for n in range(len(ordinals) + 1) if n not in ordinals)
        if free < ordinal:
            yield _renamed(trace, {ordinal: free})


def _forced(trace: Trace) -> Trace:
    """The same draft lengths from outside, which fewer requests may then do with."""
    run = replay(trace.config, trace.alone)
    lengths = {step.event: step.batch.draft_len for step in run.steps}
    forced = [
        msgspec.structs.replace(event, draft_len=lengths.get(i))
        if isinstance(event, Step)
        else event
        for i, event in enumerate(trace.events)
    ]
    plainer = replace(trace.config, draft_len_schedule=None, block_size=None)
    return msgspec.structs.replace(cut(trace, forced), config=checked(plainer))


def _ordinal(event: EveryEvent) -> int | None:
    return getattr(event, "request", None)


def _ordinals(trace: Trace) -> list[int]:
    """The requests that the events name, in order of appearance."""
    named = (_ordinal(event) for event in trace.events)
    return list(dict.fromkeys(ordinal for ordinal in named if ordinal is not None))


def _renamed(trace: Trace, names: Mapping[int, int]) -> Trace:
    """The same events about requests of other numbers."""
    return cut(
        trace,
        [
            msgspec.structs.replace(event, request=names[ordinal])
            if (ordinal := _ordinal(event)) is not None and ordinal in names
            else event
            for event in trace.events
        ],
    )


def event(i: int, trace: Trace) -> Iterator[Trace]:
    """The trace with event i simpler."""
    for plainer in _plainer(trace.events[i]):
        yield cut(trace, (*trace.events[:i], plainer, *trace.events[i + 1 :]))


def _plainer(event: EveryEvent) -> Iterator[EveryEvent]:
    """The event with one field at its default, or one number or one tuple smaller."""
    for info in msgspec.structs.fields(event):
        value = getattr(event, info.name)
        if info.required or value == info.default:
            continue
        options: list[Any] = [info.default]
        if info.name == "fault":
            options += PLACES[: PLACES.index(value)]
        if isinstance(value, int) and not isinstance(value, bool):
            base = info.default if isinstance(info.default, int) else 0
            options += _between(base, value)
        if isinstance(value, tuple):
            options.append(value[:-1])
            options += inner(value)
            options += [
                (*value[:i], v, *value[i + 1 :])
                for i, number in enumerate(value)
                if isinstance(number, int)
                for v in {number // 2, number - 1}
                if (info.name == "accepts" and 0 <= v < number) or 1 <= v < number
            ]
        for option in options:
            if option != value:
                yield msgspec.structs.replace(event, **{info.name: option})


def inner(value: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The tuple with one of the events in it simpler."""
    for i, one in enumerate(value):
        if isinstance(one, Step | Warmup):
            for plainer in _plainer(one):
                yield (*value[:i], plainer, *value[i + 1 :])


def fewer_ranks(trace: Trace) -> Iterator[Trace]:
    """The trace without its last rank, or without its first."""
    if trace.ranks > 1:
        fewer = msgspec.structs.replace(trace, ranks=trace.ranks - 1)
        yield fewer
        yield cut(fewer, [moved for event in trace.events if (moved := _moved(event)) is not None])


def _moved(event: EveryEvent) -> EveryEvent | None:
    """The event with every rank's number one less; None: it was about the first one."""
    if isinstance(event, On):
        return On(event.rank - 1, event.event) if event.rank else None
    return Together(event.events[1:]) if isinstance(event, Together) else event


def _between(base: int, value: int) -> Iterator[int]:
    """Halfway from the value to the base, then nearer to the value, at last beside it."""
    gap = value - base
    while gap > 1:
        gap //= 2
        yield value - gap


def config(trace: Trace) -> Iterator[Trace]:
    """The trace with a smaller or plainer configuration."""
    defaults = {field.name: field.default for field in fields(Config)}
    whole = trace.config
    changes: list[dict[str, Any]] = [
        {name: defaults[name]} for name in PLAIN if getattr(whole, name) != defaults[name]
    ]
    pairs = whole.draft_len_schedule or ()
    for name in SMALLER:
        value = getattr(whole, name)
        for smaller in {1, value // 2, value - 1}:
            if smaller < value:
                changes.append({name: smaller})
                if name == "max_draft_len" and pairs:
                    shorter = tuple((threshold, min(r, smaller)) for threshold, r in pairs)
                    changes[-1]["draft_len_schedule"] = shorter
    changes += [{"draft_len_schedule": pairs[:i] + pairs[i + 1 :]} for i in range(1, len(pairs))]
    if pairs:
        yield _forced(trace)
    for change in changes:
        try:
            plainer = checked(replace(whole, block_size=None, **change))
        except ConfigError:
            continue
        yield msgspec.structs.replace(trace, config=plainer)
