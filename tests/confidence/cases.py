"""Generated inputs for the rules of section 14, and a search for a case that breaks one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

import numpy as np
from confidence.sides import Side
from hypothesis import Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

T = TypeVar("T")

NAN, INF = float("nan"), float("inf")

ROUND = (0.0, 1e-30, 9e-7, 2e-6, 0.25, 0.5, 0.75, 1.0)
"""Confidences that tie, vanish and stand at both sides of the least survival."""


def nearest(value: float) -> float:
    """As a float32."""
    return float(np.float32(value))


exact = st.sampled_from([1.0, 0.5, 0.25, 0.0])
confidences = st.sampled_from([nearest(value) for value in ROUND]) | st.floats(0, 1, width=32)
logits = st.sampled_from([-4.0, 0.0, 0.5, 2.0, 30.0, NAN, INF, -INF]) | st.floats(-9, 9, width=32)


@dataclass(frozen=True)
class Stored:
    """A worker's table for S slots, and what its generations ask for. slots: S means unknown."""

    logits: list[list[float]]
    stamps: list[int]
    slots: list[int]
    expected: int

    @property
    def size(self) -> int:
        return len(self.logits) - 2


@st.composite
def stored(draw: st.DrawFn) -> Stored:
    size, width = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    line = st.lists(logits, min_size=width, max_size=width)
    rows = draw(st.lists(line, min_size=size + 1, max_size=size + 1))
    stamps = draw(st.lists(st.integers(4, 6), min_size=size + 2, max_size=size + 2))
    slots = draw(st.lists(st.integers(0, size), max_size=4))
    return Stored([*rows, [30.0] * width], stamps, slots, 5)


@dataclass(frozen=True)
class Batch:
    """Confidences of a step's generations, of which `real` are requests."""

    confidences: list[list[float]]
    real: int
    budget: int
    span: tuple[int, int]


@st.composite
def batches(
    draw: st.DrawFn, fewest: int = 1, values: st.SearchStrategy[float] = confidences
) -> Batch:
    width, count = draw(st.sampled_from([3, 4, 2, 1])), draw(st.sampled_from([2, 3, 1, 0]))
    line = st.lists(values, min_size=width, max_size=width)
    rows = draw(st.lists(line, min_size=count, max_size=count))
    least = draw(st.just(fewest) | st.integers(fewest, width))
    return Batch(
        confidences=rows,
        real=draw(st.just(len(rows)) | st.integers(0, len(rows))),
        budget=draw(st.integers(0, 9)),
        span=(least, draw(st.just(width) | st.integers(least, width))),
    )


def tables(rates: st.SearchStrategy[float]) -> st.SearchStrategy[list[tuple[int, float]]]:
    """Measurements (tokens, steps per second), as jagged as can be."""
    pairs = st.tuples(st.integers(1, 20), rates)
    return st.lists(pairs, min_size=1, max_size=8, unique_by=lambda pair: pair[0]).map(sorted)


choices = batches(fewest=0) | batches(fewest=0, values=exact)
"""Batches to allocate a budget in; every other one full of ties."""

planned = st.tuples(batches(fewest=0), tables(st.floats(0.1, 10)))
exactly_planned = st.tuples(
    batches(fewest=0, values=exact), tables(st.sampled_from([0.25, 0.5, 1.0, 1.5, 2.0]))
)
"""Where no sum and no product is rounded, so that the best value is a matter of fact."""


@dataclass(frozen=True)
class Ragged:
    """Windows of up to `widest`, and rows of items to lay out."""

    windows: list[int]
    widest: int

    @property
    def rows(self) -> list[list[int]]:
        """Items that say where they belong."""
        return [[10 * g + i for i in range(self.widest)] for g in range(len(self.windows))]


@st.composite
def ragged(draw: st.DrawFn) -> Ragged:
    widest = draw(st.integers(1, 4))
    return Ragged(draw(st.lists(st.integers(1, widest), max_size=4)), widest)


@dataclass(frozen=True)
class Padded:
    """A ragged step to be padded to a bucket, which may be impossible."""

    step: Ragged
    padding: int
    bucket: int


padded = st.builds(Padded, ragged(), st.integers(0, 3), st.integers(0, 24))


@dataclass(frozen=True)
class Ranks:
    """What the ranks bring, what was captured, and the largest window."""

    loads: list[tuple[int, int]]
    sizes: list[int]
    buckets: list[int]
    widest: int


@st.composite
def ranks(draw: st.DrawFn) -> Ranks:
    widest = draw(st.integers(1, 4))
    load = st.integers(0, 4).flatmap(
        lambda real: st.tuples(st.just(real), st.integers(real, real * widest))
    )
    captured = st.sets(st.integers(1, 6), max_size=3).map(sorted)
    return Ranks(
        draw(st.lists(load, min_size=1, max_size=3)),
        draw(captured),
        draw(st.sets(st.integers(1, 20), max_size=5).map(sorted)),
        widest,
    )


def broken(
    rule: Callable[[Side, T], None], side: Side, cases: st.SearchStrategy[T], examples: int = 1000
) -> bool:
    """Whether some generated case breaks the rule on this side; always the same cases."""

    def breaks(case: T) -> bool:
        try:
            rule(side, case)
        except AssertionError:
            return True
        return False

    rounds = settings(max_examples=examples, database=None, phases=(Phase.generate,))
    try:
        find(cases, breaks, settings=rounds, random=Random(1))
    except NoSuchExample:
        return False
    return True
