"""The rules of section 14, each told again in the plainest way: every function asserts one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
from confidence.cases import Batch, Padded, Ragged, Ranks, Stored
from confidence.sides import Matrix, Side, Table

from draftproof.reference.vocabulary import BatchError

LEAST = float(np.float32(1e-6))


# ---- confidence ----------------------------------------------------------------------------------


def believed(case: Stored, slot: int) -> list[float]:
    """The logits that count for a generation with this slot."""
    row = case.logits[slot]
    trusted = slot < case.size and case.stamps[slot] == case.expected
    return row if trusted and bool(np.isfinite(row).all()) else [30.0] * len(row)


def neutral_rows(side: Side, case: Stored) -> None:
    """Old, unknown and non-finite rows are neutral as a whole; all others are read as they are."""
    sources = side.source_rows(case.logits, case.stamps, case.slots, case.expected)
    assert [case.logits[row] for row in sources] == [believed(case, slot) for slot in case.slots]


def no_spreading(side: Side, case: Stored) -> None:
    """Confidences and windows are those of a table that never held what is not believed."""
    clean = [believed(case, slot) for slot in range(case.size + 2)]
    sources = side.source_rows(case.logits, case.stamps, case.slots, case.expected)
    found, expected = (
        side.survival(side.calibrated(rows, None), len(rows))
        for rows in ([case.logits[row] for row in sources], [clean[slot] for slot in case.slots])
    )
    assert found == expected
    width = len(case.logits[0])
    for budget in range(4):
        windows = [side.windows(s, budget, (1, width), len(s)) for s in (found, expected)]
        assert windows[0] == windows[1]


def float32_products(side: Side, case: Batch) -> None:
    """Survival is the product in float32, factor by factor; idle and padding rows have none."""
    expected = []
    for g, row in enumerate(case.confidences):
        running, products = np.float32(1), []
        for factor in row:
            running = running * np.float32(factor)
            products.append(float(running) if g < case.real else 0.0)
        expected.append(products)
    assert side.survival(case.confidences, case.real) == expected


# ---- who gets the budget -------------------------------------------------------------------------


def allocation(side: Side, case: Batch) -> None:
    """The best prefixes for the budget, between the limits, and ties in the stated order."""
    survivals = side.survival(case.confidences, case.real)
    windows = side.windows(survivals, case.budget, case.span, case.real)
    assert windows[case.real :] == [1] * (len(survivals) - case.real)
    requests, (fewest, most) = survivals[: case.real], case.span
    lengths = [window - 1 for window in windows[: case.real]]
    assert all(fewest <= length <= most for length in lengths)
    assert sum(lengths) - fewest * len(lengths) <= case.budget
    best = max(gains(requests, fewest, other) for other in allocations(requests, case))
    assert gains(requests, fewest, lengths) == best
    taken, left = split(requests, lengths, case.span)
    assert len(taken) == min(case.budget, len(taken) + len(left))
    assert all(first < second for first in taken for second in left)


def gains(survivals: Matrix, fewest: int, lengths: Sequence[int]) -> Fraction:
    """Sum of the survivals above the fewest positions."""
    chosen = [row[fewest:length] for row, length in zip(survivals, lengths, strict=True)]
    return sum((Fraction(value) for row in chosen for value in row), Fraction(0))


def allocations(survivals: Matrix, case: Batch) -> Iterator[tuple[int, ...]]:
    """Every permitted way to spend at most the budget, as lengths."""
    fewest, most = case.span
    choices = [
        [n for n in range(fewest, most + 1) if all(s >= LEAST for s in row[fewest:n])]
        for row in survivals
    ]
    for lengths in product(*choices):
        if sum(lengths) - fewest * len(lengths) <= case.budget:
            yield lengths


Key = tuple[float, int, int]


def split(
    survivals: Matrix, lengths: Sequence[int], span: tuple[int, int]
) -> tuple[list[Key], list[Key]]:
    """Candidates that were taken, and those that could have been, by (-survival, position, g)."""
    taken: list[Key] = []
    left: list[Key] = []
    for g, row in enumerate(survivals):
        for k in range(*span):
            if k < lengths[g]:
                taken.append((-row[k], k, g))
            elif row[k] >= LEAST:
                left.append((-row[k], k, g))
    return taken, left


# ---- how much there is to give -------------------------------------------------------------------


def steps_per_second(table: Table, tokens: int) -> float:
    """The rate of the smallest measured step that holds them."""
    fitting = [pair for pair in table if pair[0] >= tokens]
    return min(fitting)[1] if fitting else 0.0


def early_stopping(side: Side, case: tuple[Batch, Table]) -> None:
    """Algorithm 1: admit while each candidate makes the best value so far larger."""
    batch, table = case
    survivals = side.survival(batch.confidences, len(batch.confidences))
    width = len(survivals[0]) if survivals else 0
    order = sorted(
        (-row[k], k, g) for g, row in enumerate(survivals) for k in range(width) if row[k] > 0
    )
    expected_tokens = [float(len(survivals))]
    for key in order:
        expected_tokens.append(expected_tokens[-1] - key[0])
    values = [
        tokens * steps_per_second(table, len(survivals) + n)
        for n, tokens in enumerate(expected_tokens)
    ]
    admitted = next((n for n in range(len(order)) if values[n + 1] <= values[n]), len(order))
    expected = [sum(key[2] == g for key in order[:admitted]) for g in range(len(survivals))]
    assert side.prefix_schedule(survivals, table) == expected


def stopping_above_the_fewest(side: Side, case: tuple[Batch, Table]) -> None:
    """A step's drafts above the fewest, each of which pays; padding rows bring no token."""
    batch, table = case
    survivals = side.survival(batch.confidences, batch.real)
    fewest, most = batch.span
    own = survivals[: batch.real]
    counted = [[chance if chance >= LEAST else 0.0 for chance in row] for row in own]
    tokens = batch.real * (1 + fewest)
    expected = batch.real + sum(chance for row in counted for chance in row[:fewest])
    chances = sorted((chance for row in counted for chance in row[fewest:most]), reverse=True)
    values = [expected * steps_per_second(table, tokens)]
    for n, chance in enumerate(chances, start=1):
        expected += chance
        values.append(expected * steps_per_second(table, tokens + n) if chance else 0.0)
    paying = next((n for n in range(len(chances)) if values[n + 1] <= values[n]), len(chances))
    assert side.stopped_early(survivals, batch.real, table, batch.span) == paying


def unrestricted_search(side: Side, case: tuple[Batch, Table]) -> None:
    """The budget of the best value over all prefix allocations, and no smaller one is as good."""
    batch, table = case
    survivals = side.survival(batch.confidences, len(batch.confidences))
    fewest, _ = batch.span
    certain = Fraction(len(survivals)) + gains(survivals, 0, [fewest] * len(survivals))
    unlimited = Batch(batch.confidences, batch.real, 99, batch.span)
    values: dict[int, Fraction] = {}
    for lengths in allocations(survivals, unlimited):
        spent = sum(lengths) - fewest * len(lengths)
        rate = steps_per_second(table, len(lengths) + sum(lengths))
        value = (certain + gains(survivals, fewest, lengths)) * Fraction(rate)
        values[spent] = max(values.get(spent, value), value)
    found = side.best_budget(survivals, table, batch.span)
    assert found == max(values, key=lambda spent: (values[spent], -spent))


# ---- layout --------------------------------------------------------------------------------------


def layout(side: Side, case: Ragged) -> None:
    """Offsets are exclusive prefix sums, packing follows them, and scatter back undoes it."""
    offsets = side.qo_indptr(case.windows)
    assert offsets == [sum(case.windows[:g]) for g in range(len(case.windows) + 1)]
    packed = side.pack(case.rows, case.windows)
    assert len(packed) == sum(case.windows)
    for g, window in enumerate(case.windows):
        assert packed[offsets[g] : offsets[g + 1]] == case.rows[g][:window]
    assert side.unpack(packed, case.windows, case.widest) == [
        row[:window] + [-1] * (case.widest - window)
        for row, window in zip(case.rows, case.windows, strict=True)
    ]


def padding(side: Side, case: Padded) -> None:
    """The bucket is hit exactly, real rows first and in turn, or it is an error."""
    windows, widest = case.step.windows, case.step.widest
    rows = len(windows) + case.padding
    if not sum(windows) + case.padding <= case.bucket <= rows * widest:
        assert fill_or_none(side, case) is None
        return
    filled = fill_or_none(side, case)
    assert filled is not None
    before = [*windows, *[1] * case.padding]
    assert len(filled) == rows
    assert sum(filled) == case.bucket
    assert all(old <= new <= widest for old, new in zip(before, filled, strict=True))
    given = [new - old for old, new in zip(before, filled, strict=True)]
    if any(given[len(windows) :]):
        assert filled[: len(windows)] == [widest] * len(windows)
    for part in (range(len(windows)), range(len(windows), rows)):
        for i, j in product(part, part):
            assert filled[j] == widest or given[i] <= given[j] + 1
            assert i >= j or filled[i] == widest or given[i] >= given[j]


def fill_or_none(side: Side, case: Padded) -> list[int] | None:
    """The filled windows, or None for the error."""
    try:
        return side.fill_bucket(case.step.windows, case.padding, case.bucket, case.step.widest)
    except BatchError:
        return None


def agreement(side: Side, case: Ranks) -> None:
    """All ranks can be padded to the agreed graph, and to no captured one before it."""
    found = side.agreed_shape(case.loads, case.sizes, case.buckets, case.widest)
    shapes = sorted(product(case.sizes, case.buckets))
    working = [shape for shape in shapes if all(fillable(side, case, x, shape) for x in case.loads)]
    assert found == (working[0] if working else None)


def fillable(side: Side, case: Ranks, load: tuple[int, int], shape: tuple[int, int]) -> bool:
    """Whether a rank's windows, whichever they are, can be padded to the shape."""
    real, tokens = load
    if real > shape[0]:
        return False
    windows = [1] * real
    for i in range(tokens - real):
        windows[i // (case.widest - 1)] += 1
    step = Ragged(windows, case.widest)
    return fill_or_none(side, Padded(step, shape[0] - real, shape[1])) is not None
