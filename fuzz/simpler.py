"""What may be simpler about a trace: candidates for `draftproof.fuzz.shrink`, boldest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, replace
from itertools import combinations
from typing import Any, TypeVar

import msgspec

from draftproof.reference.config import checked
from draftproof.reference.vocabulary import Config, ConfigError
from draftproof.sim.events import Event, Step, Submit, Warmup
from draftproof.sim.faults import PLACES
from draftproof.sim.rank_events import EveryEvent, On, Together
from draftproof.sim.run import replay
from draftproof.sim.traces import Trace, cut

SMALLER = ("num_stages", "max_draft_len", "window_size", "max_num_requests", "vocab_size")
AnEvent = TypeVar("AnEvent", bound=Event)
Request = tuple[int, int]
"""Rank and ordinal."""
PLAIN = tuple(
    field.name
    for field in fields(Config)
    if field.default is not MISSING and field.name not in (*SMALLER, "block_size")
)
"""What is tried at its default; the block size follows `max_draft_len`."""


def fewer_requests(trace: Trace) -> Iterator[Trace]:
    """The trace without one of its requests, or with two of them made one."""
    requests = _requests(trace)
    for gone in reversed(requests):
        yield cut(trace, [event for event in trace.events if _request(event) != gone])
    for kept, gone in combinations(requests, 2):
        if kept[0] == gone[0]:
            others = [e for e in trace.events if not (_submits(e) and _request(e) == gone)]
            yield _renamed(cut(trace, others), {gone: kept[1]})


def numbering(trace: Trace) -> Iterator[Trace]:
    """The trace with each rank's requests counted from 0, or one with a lower free number."""
    requests = _requests(trace)
    counts: Counter[int] = Counter()
    names: dict[Request, int] = {}
    for rank, ordinal in requests:
        names[rank, ordinal] = counts[rank]
        counts[rank] += 1
    if any(ordinal != number for (_, ordinal), number in names.items()):
        yield _renamed(trace, names)
    for rank, ordinal in requests:
        free = next(n for n in range(len(requests) + 1) if (rank, n) not in requests)
        if free < ordinal:
            yield _renamed(trace, {(rank, ordinal): free})


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


def _request(event: EveryEvent) -> Request | None:
    """Whom an event is about; without ranks, on rank 0."""
    rank, inner = (event.rank, event.event) if isinstance(event, On) else (0, event)
    ordinal: int | None = getattr(inner, "request", None)
    return None if ordinal is None else (rank, ordinal)


def _submits(event: EveryEvent) -> bool:
    return isinstance(event.event if isinstance(event, On) else event, Submit)


def _requests(trace: Trace) -> list[Request]:
    """The requests that the events name, in order of appearance."""
    named = map(_request, trace.events)
    return list(dict.fromkeys(request for request in named if request is not None))


def _renamed(trace: Trace, names: Mapping[Request, int]) -> Trace:
    """The same events about requests of other numbers."""

    def renamed(event: EveryEvent) -> EveryEvent:
        request = _request(event)
        if request is None or request not in names:
            return event
        if isinstance(event, On):
            inner = msgspec.structs.replace(event.event, request=names[request])
            return On(event.rank, inner)
        return msgspec.structs.replace(event, request=names[request])

    return cut(trace, [renamed(event) for event in trace.events])


def event(i: int, trace: Trace) -> Iterator[Trace]:
    """The trace with event i simpler."""
    one = trace.events[i]
    options: Iterator[EveryEvent] = _plainer(one)
    if isinstance(one, On):
        options = (On(one.rank, plainer) for plainer in _plainer(one.event))
    for plainer in options:
        yield cut(trace, (*trace.events[:i], plainer, *trace.events[i + 1 :]))


def _plainer(event: AnEvent) -> Iterator[AnEvent]:
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
