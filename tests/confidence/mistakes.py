"""Mistakes that people make in section 14, each in the place of one function of a side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import isfinite
from operator import mul
from typing import Any

from confidence import rules
from confidence.cases import nearest
from confidence.sides import REFERENCE, Matrix, Side, Span, Table

from draftproof.reference.confidence import survival
from draftproof.reference.scheduler import Limits, ranked, rate_of_table

# ---- whose confidence ----------------------------------------------------------------------------


def any_stamp(
    logits: Matrix, stamps: Sequence[int], slots: Sequence[int], expected: int
) -> list[int]:
    """A recycled slot's old confidence is used: the stamp is ignored."""
    return REFERENCE.source_rows(logits, [expected] * len(stamps), slots, expected)


def stamp_of_any_past_step(
    logits: Matrix, stamps: Sequence[int], slots: Sequence[int], expected: int
) -> list[int]:
    """Older stamps are let through."""
    trusted = [expected if stamp <= expected else stamp for stamp in stamps]
    return REFERENCE.source_rows(logits, trusted, slots, expected)


def scratch_is_somebody(
    logits: Matrix, stamps: Sequence[int], slots: Sequence[int], expected: int
) -> list[int]:
    """An unknown request reads what padding rows left in the scratch row."""
    neutral = len(logits) - 1
    return [
        slot if stamps[slot] == expected and all(map(isfinite, logits[slot])) else neutral
        for slot in slots
    ]


def broken_rows_are_kept(
    logits: Matrix, stamps: Sequence[int], slots: Sequence[int], expected: int
) -> list[int]:
    """A row with a NaN is used as it is."""
    finite = [[x if isfinite(x) else 0.0 for x in row] for row in logits]
    return REFERENCE.source_rows(finite, stamps, slots, expected)


def one_broken_row_breaks_all(
    logits: Matrix, stamps: Sequence[int], slots: Sequence[int], expected: int
) -> list[int]:
    """Non-finite spreads: the check is made once for the whole batch."""
    sound = all(isfinite(x) for slot in slots for x in logits[slot])
    rows = REFERENCE.source_rows(logits, stamps, slots, expected)
    return rows if sound else [len(logits) - 1] * len(slots)


# ---- survival ------------------------------------------------------------------------------------


def rounded_once(rows: Matrix, real: int) -> list[list[float]]:
    """What `torch.cumprod` does on a CPU: accumulate in double, round at the end."""
    products = [list(accumulate(row, mul)) for row in rows]
    return [[nearest(x) if g < real else 0.0 for x in row] for g, row in enumerate(products)]


def padding_survives(rows: Matrix, real: int) -> list[list[float]]:
    """Padding rows compete with real ones."""
    del real
    return survival(rows, len(rows))


def masked_by_multiplication(rows: Matrix, real: int) -> list[list[float]]:
    """Confidences of one row run on into the next: the product is never started anew."""
    flat = [factor for row in rows for factor in row]
    products = survival([flat], 1)[0]
    width = len(rows[0]) if rows else 1
    lines = [products[i : i + width] for i in range(0, len(flat), width)]
    return [line if g < real else [0.0] * width for g, line in enumerate(lines)]


# ---- who gets the budget -------------------------------------------------------------------------


def ties_by_request(survivals: Matrix, budget: int, span: Span, real: int) -> list[int]:
    """Ties go to the first request before they go to the earlier position."""
    best = sorted(
        (-survivals[g][k], g, k)
        for g in range(real)
        for k in range(*span)
        if survivals[g][k] >= nearest(1e-6)
    )[:budget]
    lengths = [span[0] + sum(g == key[1] for key in best) for g in range(real)]
    return [length + 1 for length in lengths] + [1] * (len(survivals) - real)


def budget_includes_the_fewest(survivals: Matrix, budget: int, span: Span, real: int) -> list[int]:
    """The floor is paid for out of the budget."""
    return REFERENCE.windows(survivals, max(0, budget - span[0] * real), span, real)


def no_ceiling(survivals: Matrix, budget: int, span: Span, real: int) -> list[int]:
    """max_verify_len is forgotten."""
    width = len(survivals[0]) if survivals else span[1]
    return REFERENCE.windows(survivals, budget, (span[0], width), real)


def even_the_hopeless(survivals: Matrix, budget: int, span: Span, real: int) -> list[int]:
    """Survivals below 1e-6 get budget too."""
    hopeful = [[max(x, 2e-6) if x < nearest(1e-6) else x for x in row] for row in survivals]
    return REFERENCE.windows(hopeful, budget, span, real)


def without_the_anchor(survivals: Matrix, budget: int, span: Span, real: int) -> list[int]:
    """A verify window is read as a number of drafts."""
    return [window - 1 for window in REFERENCE.windows(survivals, budget, span, real)]


def padding_windows_of_0(survivals: Matrix, budget: int, span: Span, real: int) -> list[int]:
    """A padding row verifies nothing at all, and its offsets are empty."""
    windows = REFERENCE.windows(survivals, budget, span, real)
    return windows[:real] + [0] * (len(windows) - real)


def equal_shares(survivals: Matrix, budget: int, span: Span, real: int) -> list[int]:
    """The budget is dealt out evenly, whatever the confidences say."""
    flat = [[1.0] * len(row) for row in survivals]
    return REFERENCE.windows(flat, budget, span, real)


# ---- how much there is ---------------------------------------------------------------------------


def without_early_stopping(survivals: Matrix, table: Table) -> list[int]:
    """Algorithm 1 searches on for a later, higher maximum."""
    width = len(survivals[0]) if survivals else 0
    budget = REFERENCE.best_budget(survivals, table, (0, width))
    best = ranked(survivals, Limits(0, width))[:budget]
    return [sum(g == request for request, _ in best) for g in range(len(survivals))]


def admits_equals(survivals: Matrix, table: Table) -> list[int]:
    """An equal value is admitted: >= instead of >."""
    rate, lengths = rate_of_table(table), [0] * len(survivals)
    tokens, expected = len(survivals), float(len(survivals))
    best = expected * rate(tokens)
    for g, k in ranked(survivals, Limits(0, len(survivals[0]) if survivals else 0)):
        tokens, expected = tokens + 1, expected + survivals[g][k]
        if survivals[g][k] == 0 or expected * rate(tokens) < best:
            break
        best = expected * rate(tokens)
        lengths[g] += 1
    return lengths


def searches_on(survivals: Matrix, real: int, table: Table, span: Span) -> int:
    """A step looks past a draft that does not pay for one that does."""
    return REFERENCE.best_budget(survivals[:real], table, span)


def stops_as_if_nothing_was_granted(survivals: Matrix, real: int, table: Table, span: Span) -> int:
    """The fewest of each request are no tokens of the step."""
    shifted = [(tokens + real * span[0], rate) for tokens, rate in table]
    return REFERENCE.stopped_early(survivals, real, shifted, span)


def padding_costs(survivals: Matrix, real: int, table: Table, span: Span) -> int:
    """Padding rows count as requests, with their anchors."""
    return REFERENCE.stopped_early(survivals, len(survivals), table, span)


def forgets_the_anchors(survivals: Matrix, table: Table, span: Span) -> int:
    """The step's tokens are counted without one per request."""
    shifted = [(tokens + len(survivals), rate) for tokens, rate in table]
    return REFERENCE.best_budget(survivals, shifted, span)


def first_local_best(survivals: Matrix, table: Table, span: Span) -> int:
    """The search for the budget stops at the first fall, where throughput is jagged."""
    limited = [row[: span[1]] for row in survivals]
    lengths = REFERENCE.prefix_schedule(limited, table)
    return max(0, sum(lengths) - span[0] * len(survivals))


# ---- layout --------------------------------------------------------------------------------------


def strided(packed: Sequence[int], windows: Sequence[int], width: int) -> list[list[int]]:
    """Rows are read at multiples of K + 1 instead of at `qo_indptr`."""
    return [
        [*packed[g * width : g * width + window], *[-1] * (width - window)]
        for g, window in enumerate(windows)
    ]


def inclusive_sums(windows: Sequence[int]) -> list[int]:
    """Offsets that begin with the first window instead of 0."""
    return [sum(windows[: g + 1]) for g in range(len(windows))] + [sum(windows)]


def padding_may_be_empty(
    windows: Sequence[int], padding: int, bucket: int, widest: int
) -> list[int]:
    """Padding rows start at 0, and keep it when the bucket is small."""
    if sum(windows) + padding > bucket >= sum(windows) and padding:
        return [*windows, *[0] * (padding - 1), bucket - sum(windows)]
    return REFERENCE.fill_bucket(windows, padding, bucket, widest)


def padding_takes_the_slack(
    windows: Sequence[int], padding: int, bucket: int, widest: int
) -> list[int]:
    """Slack goes to padding rows before it goes to real ones."""
    filled = REFERENCE.fill_bucket([*[1] * padding, *windows], 0, bucket, widest)
    return filled[padding:] + filled[:padding]


def slack_to_one_request(
    windows: Sequence[int], padding: int, bucket: int, widest: int
) -> list[int]:
    """Slack fills up the first request before the second gets any."""
    filled = REFERENCE.fill_bucket(windows, padding, bucket, widest)
    total, rows = sum(filled[: len(windows)]), list(windows)
    for g in range(len(rows)):
        rows[g] = min(widest, rows[g] + total - sum(rows))
    return rows + filled[len(windows) :]


def no_error(windows: Sequence[int], padding: int, bucket: int, widest: int) -> list[int]:
    """A bucket that cannot be hit is missed silently."""
    rows = len(windows) + padding
    nearest_total = min(max(bucket, sum(windows) + padding), rows * widest)
    return REFERENCE.fill_bucket(windows, padding, nearest_total, widest)


def each_rank_for_itself(
    loads: Sequence[tuple[int, int]], sizes: Sequence[int], buckets: Sequence[int], widest: int
) -> tuple[int, int] | None:
    """A rank rounds up its own load."""
    return REFERENCE.agreed_shape(loads[:1], sizes, buckets, widest)


def largest_load(
    loads: Sequence[tuple[int, int]], sizes: Sequence[int], buckets: Sequence[int], widest: int
) -> tuple[int, int] | None:
    """Only the largest sums are looked at: padding rows of a smaller rank are forgotten."""
    most = max(real for real, _ in loads), max(tokens for _, tokens in loads)
    return REFERENCE.agreed_shape([most], sizes, buckets, widest)


MISTAKES: list[tuple[Callable[..., Any], str, Callable[[Side, Any], None]]] = [
    (any_stamp, "source_rows", rules.neutral_rows),
    (stamp_of_any_past_step, "source_rows", rules.neutral_rows),
    (scratch_is_somebody, "source_rows", rules.neutral_rows),
    (broken_rows_are_kept, "source_rows", rules.neutral_rows),
    (one_broken_row_breaks_all, "source_rows", rules.neutral_rows),
    (any_stamp, "source_rows", rules.no_spreading),
    (one_broken_row_breaks_all, "source_rows", rules.no_spreading),
    (rounded_once, "survival", rules.float32_products),
    (padding_survives, "survival", rules.float32_products),
    (masked_by_multiplication, "survival", rules.float32_products),
    (ties_by_request, "windows", rules.allocation),
    (budget_includes_the_fewest, "windows", rules.allocation),
    (no_ceiling, "windows", rules.allocation),
    (even_the_hopeless, "windows", rules.allocation),
    (without_the_anchor, "windows", rules.allocation),
    (padding_windows_of_0, "windows", rules.allocation),
    (equal_shares, "windows", rules.allocation),
    (without_early_stopping, "prefix_schedule", rules.early_stopping),
    (admits_equals, "prefix_schedule", rules.early_stopping),
    (searches_on, "stopped_early", rules.stopping_above_the_fewest),
    (stops_as_if_nothing_was_granted, "stopped_early", rules.stopping_above_the_fewest),
    (padding_costs, "stopped_early", rules.stopping_above_the_fewest),
    (forgets_the_anchors, "best_budget", rules.unrestricted_search),
    (first_local_best, "best_budget", rules.unrestricted_search),
    (strided, "unpack", rules.layout),
    (inclusive_sums, "qo_indptr", rules.layout),
    (padding_may_be_empty, "fill_bucket", rules.padding),
    (padding_takes_the_slack, "fill_bucket", rules.padding),
    (slack_to_one_request, "fill_bucket", rules.padding),
    (no_error, "fill_bucket", rules.padding),
    (each_rank_for_itself, "agreed_shape", rules.agreement),
    (largest_load, "agreed_shape", rules.agreement),
]
