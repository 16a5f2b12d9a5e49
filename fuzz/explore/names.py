"""States up to the names of requests and slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from draftproof.fuzz.explore.states import CODE, attributes, is_numbers, model_of, numbers
from draftproof.reference.vocabulary import ContextRow, WorkerState
from draftproof.sim.run import Simulation

NAMES = frozenset({"ordinal", "request_id", "incarnation", "seq_slot", "request"})
"""Attributes that say which request something is, not how it is."""
TOKENS = frozenset({"output", "drafts"})
"""Attributes that hold tokens, of which the number counts."""


def views(simulation: Simulation) -> Iterator[object]:
    """What engine and model know: of each request, in no order, and of all together."""
    engine, state = simulation.engine, model_of(simulation).state()
    own = {request.request_id: request.incarnation for request in engine.everybody}
    told: list[object] = [_view(simulation, state, request) for request in engine.everybody]
    gone = [name for name in state.slots or {} if name not in own]
    # A slot whose request has left, which the worker does not know yet.
    told += [("left behind", _window(state, name, None, engine.forwards)) for name in gone]
    yield from sorted(map(repr, told))
    last = engine.last_departed
    yield len(state.free_slots or ()), last is None, last in own, last in (state.slots or {})


def _view(simulation: Simulation, state: WorkerState, request: Any) -> tuple[object, ...]:
    engine = simulation.engine
    return (
        "running" if request in engine.running else "waiting",
        _plain(request),
        _under_way(simulation, request.incarnation),
        _window(state, request.request_id, request.incarnation, engine.forwards),
    )


def _plain(thing: object) -> tuple[object, ...]:
    """Attributes without names, of tokens their number."""
    if hasattr(thing, "__struct_fields__") or hasattr(thing, "__dataclass_fields__"):
        return tuple(
            (name, len(value) if name in TOKENS else _plain(value))
            for name, value in attributes(thing)
            if name not in NAMES
        )
    return (repr(thing),)


def _under_way(simulation: Simulation, incarnation: int) -> object:
    """What the last forward brought for a request, if it is still to be delivered."""
    if simulation.engine.pending is None:
        return None
    batch, result = simulation.engine.pending
    for b, row in enumerate(batch.rows):
        if row.incarnation == incarnation:
            return isinstance(row, ContextRow), batch.draft_len, result.new_tokens_lens[b]
    return None


def _window(state: WorkerState, request_id: int, incarnation: int | None, forwards: int) -> object:
    """The visible frames: whether they are its own, their positions, how many steps ago."""
    slot = (state.slots or {}).get(request_id)
    if slot is None:
        return None
    frames = [
        (low + 128 * high == incarnation, p + 128 * q, forwards - (n + 128 * m))
        for low, high, p, q, n, m, _ in state.windows[slot][0]
    ]
    return state.ctx_len[slot], state.initialized[slot], tuple(frames)


def pattern(thing: object, seen: set[int] | None = None) -> Iterator[object]:
    """Of everything a worker remembers, where there is something, whichever row it is in."""
    seen = set() if seen is None else seen
    if isinstance(thing, bytes):
        yield bytes(map(bool, thing))
        return
    if thing is None or isinstance(thing, bool | int | float | str):
        return
    if isinstance(thing, CODE) or id(thing) in seen:
        return
    seen.add(id(thing))
    if is_numbers(thing):
        yield _rows(thing)
    elif isinstance(thing, dict):
        yield len(thing)
        for value in thing.values():
            yield from pattern(value, seen)
    elif hasattr(thing, "__iter__") and hasattr(thing, "__len__"):
        yield len(thing)
        for value in thing:
            yield from pattern(value, seen)
    else:
        for name, value in attributes(thing):
            yield name
            yield from pattern(value, seen)


def _rows(thing: Any) -> object:
    """How many rows there are of each pattern of zeros."""
    there = numbers(thing) != 0
    rows = there.reshape(there.shape[0], -1) if there.ndim > 1 else there.reshape(-1, 1)
    return sorted(Counter(row.tobytes() for row in rows).items())
