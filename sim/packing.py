"""Flat buffers of a batch: one owner per packed row, by one set of offsets."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from draftproof.reference.vocabulary import Batch

_ARRAYS = tuple(field.name for field in fields(Batch) if "array" in str(field.type))
_POISON = {"q": 2**62, "b": -128, "f": float("nan")}


def hidden_rows(spans: Iterable[tuple[int, int, int]], step: int) -> array[int]:
    """Tagged hidden rows (semantics, section 8a) for spans (incarnation, position, count).

    Returns int8 [rows, D], flat. A row names its origin, so any misplaced one is recognisable.
    """
    packed, rest = bytearray(), two(step) + b"\0"
    for incarnation, first, count in spans:
        own, start = two(incarnation), first & 0x3FFF
        positions = _TWO[start : start + count]
        if positions:
            packed += own + (rest + own).join(positions) + rest
    return array("b", bytes(packed))


_TWO = 2 * tuple(bytes((number & 127, number >> 7)) for number in range(1 << 14))


def two(number: int) -> bytes:
    """A number as two base-128 digits, low digit first; what does not fit is cut off."""
    return _TWO[number & 0x3FFF]


def before_target(batch: Batch) -> Batch:
    """What is known of a step before the target has run; its arrays are shared.

    Of a planned step that is less: its windows are still to be chosen.
    """
    left: dict[str, Any] = {"hidden": None, "target_probs": None, "target_logits": None}
    if batch.verify_budget is not None:
        left |= {"verify_lens": None, "confidences": None}
    return replace(batch, target_tokens=array("q"), **left)


def to_plan(batch: Batch) -> Batch:
    """What a planned step's windows are chosen from; its arrays are shared."""
    return replace(before_target(batch), confidences=batch.confidences)


def isolated(batch: Batch) -> Batch:
    """The same batch with arrays of its own, for a worker that might change or keep them."""
    copies: dict[str, Any] = {name: value[:] for name, value in _arrays(batch)}
    return replace(batch, **copies)


def poison(batch: Batch) -> None:
    """Overwrite the arrays of a batch: nobody may look at them after their step."""
    for _, value in _arrays(batch):
        value[:] = array(value.typecode, [_POISON[value.typecode]]) * len(value)


def _arrays(batch: Batch) -> list[tuple[str, array[Any]]]:
    return [(name, value) for name in _ARRAYS if (value := getattr(batch, name)) is not None]
