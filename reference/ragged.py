"""Where the tokens of a ragged step lie, and what it is padded to (semantics, section 14)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, cycle
from typing import NamedTuple, TypeVar

from draftproof.reference.vocabulary import BatchError

T = TypeVar("T")


class Load(NamedTuple):
    """What one rank brings to a step: how many real rows, and the sum of their windows."""

    real: int
    tokens: int


class Shape(NamedTuple):
    """A captured graph of ragged steps: so many rows, so many tokens in all."""

    rows: int
    tokens: int


def qo_indptr(windows: Sequence[int]) -> list[int]:
    """Exclusive prefix sums, [G + 1]: generation g owns packed rows [g] .. [g + 1] - 1."""
    return list(accumulate(windows, initial=0))


def pack(rows: Sequence[Sequence[T]], windows: Sequence[int]) -> list[T]:
    """The first windows[g] items of each row, one row behind the other."""
    return [item for row, window in zip(rows, windows, strict=True) for item in row[:window]]


def unpack(packed: Sequence[T], windows: Sequence[int], width: int, fill: T) -> list[list[T]]:
    """The packed items back in their rows of `width`, filled up behind the window."""
    starts = qo_indptr(windows)
    return [
        [*packed[start : start + window], *[fill] * (width - window)]
        for start, window in zip(starts, windows, strict=False)
    ]


def fill_bucket(windows: Sequence[int], padding: int, bucket: int, widest: int) -> list[int]:
    """Windows of a step padded to exactly `bucket` tokens, padding rows last.

    windows: of the real rows; padding: number of padding rows, which start with a window of 1;
    widest: what a window may grow to. What is missing is given away one by one, round and round
    the real rows that can still grow, and only then round the padding rows.
    Raises BatchError if the total cannot be hit.
    """
    filled = [*windows, *[1] * padding]
    slack = bucket - sum(filled)
    if not 0 <= slack <= len(filled) * widest - sum(filled):
        raise BatchError(
            f"a bucket of {bucket} tokens cannot hold windows {list(windows)} "
            f"and {padding} padding rows: that takes {sum(filled)} .. {len(filled) * widest}"
        )
    real = len(windows)
    for part in (range(real), range(real, len(filled))):
        slack = _give(filled, part, slack, widest)
    return filled


def _give(filled: list[int], part: Sequence[int], slack: int, widest: int) -> int:
    """Give slack to these rows in turn while they can grow; returns what is left."""
    room = sum(widest - filled[row] for row in part)
    left = max(0, slack - room)
    turns = cycle(part)
    while slack > left:
        row = next(turns)
        if filled[row] < widest:
            filled[row] += 1
            slack -= 1
    return left


def agreed_shape(
    loads: Sequence[Load], sizes: Sequence[int], buckets: Sequence[int], widest: int
) -> Shape | None:
    """The one graph that all ranks replay, or None: no captured one fits every rank.

    loads: of all ranks, so that each computes the same answer from the same numbers; sizes,
    buckets: captured rows and tokens, ascending; widest: largest window. The fewest rows that
    hold every rank, then the fewest tokens, such that every rank can be padded to it exactly.
    """
    for rows in sizes:
        for tokens in buckets:
            if all(_fits(load, rows, tokens, widest) for load in loads):
                return Shape(rows, tokens)
    return None


def _fits(load: Load, rows: int, tokens: int, widest: int) -> bool:
    padding = rows - load.real
    return padding >= 0 and load.tokens + padding <= tokens <= rows * widest
