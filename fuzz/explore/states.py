"""When two states are the same.

Exactly: everything that engine and model remember is equal, and every byte that the worker does.

Up to names: the same after requests and slots were named anew (`names.py`). What engine and model
know of each request makes its view; the state is the views, in no order, with token values left
out, which follow from who the request is. Of the worker's memory, which only the worker could
rename, the zeros count: each tensor is a collection of rows, and of each number only whether it is
0. So states stay apart in which the worker has left something behind in different places.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from draftproof.sim.run import Simulation

Key = bytes

ASIDE = frozenset({"config", "journal", "run"})
"""Attributes of engine and model that are the same for all, or record what has been."""
CODE = (FunctionType, MethodType, BuiltinFunctionType, ModuleType, type)
"""What is no memory. What a function keeps in its closure is not seen."""


def digest(parts: Iterable[object]) -> Key:
    """A short key; the same for the same parts in any process."""
    return blake2b("\0".join(map(repr, parts)).encode(), digest_size=16).digest()


def model_of(simulation: Simulation) -> Any:
    """The reference worker of a simulation."""
    return simulation._model


def memory(thing: object, aside: frozenset[str] = frozenset()) -> list[object]:
    """Everything that can be reached from an object, as a flat sequence of plain values.

    Code and attributes that are `aside` are left out. What is reached twice is told once.
    """
    told: list[object] = []
    seen: dict[int, int] = {}

    def tell(thing: object) -> None:
        if thing is None or isinstance(thing, bool | int | float | str | bytes):
            told.append(thing)
        elif isinstance(thing, CODE):
            return
        elif id(thing) in seen:
            told.append(f"again {seen[id(thing)]}")
        else:
            seen[id(thing)] = len(seen)
            tell_parts(thing)

    def tell_parts(thing: Any) -> None:
        if is_numbers(thing):
            told.append(numbers(thing).tobytes())
        elif isinstance(thing, dict):
            for name, value in thing.items():
                tell(name)
                tell(value)
        elif isinstance(thing, list | tuple | deque):
            told.append(len(thing))
            for value in thing:
                tell(value)
        elif isinstance(thing, set | frozenset):
            told.append(sorted(map(repr, thing)))
        else:
            for name, value in attributes(thing):
                if name not in aside:
                    told.append(name)
                    tell(value)

    tell(thing)
    return told


def attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    """Of an object of any class, by name."""
    names = _declared(type(thing)).union(getattr(thing, "__dict__", ()))
    for name in sorted(names):
        if hasattr(thing, name):
            yield name, getattr(thing, name)


_DECLARED: dict[type, frozenset[str]] = {}


def _declared(kind: type) -> frozenset[str]:
    """What a class says its objects have."""
    if kind not in _DECLARED:
        slots = [name for base in kind.__mro__ for name in _slots(base)]
        _DECLARED[kind] = frozenset(slots).union(getattr(kind, "__struct_fields__", ()))
    return _DECLARED[kind]


def _slots(kind: type) -> Iterable[str]:
    slots: str | Iterable[str] = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else slots


def is_numbers(thing: object) -> bool:
    """A tensor of torch, an array or a number of numpy or of the standard library."""
    return hasattr(thing, "tobytes") or (hasattr(thing, "detach") and hasattr(thing, "dtype"))


def numbers(thing: Any) -> Any:
    """The same in an array of numpy; of types that numpy lacks, the bytes."""
    import numpy

    if hasattr(thing, "tobytes"):
        return numpy.asarray(thing)
    import torch

    tensor = thing.detach().cpu().contiguous()
    if tensor.dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
        tensor = tensor.view(torch.int16 if tensor.dtype == torch.bfloat16 else torch.uint8)
    return tensor.numpy()
