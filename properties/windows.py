"""Section 14 told anew: survivals, allocation and padding, without a look at `reference/`."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack, unpack

from draftproof.reference.vocabulary import Config

Row = Sequence[float]


def single(value: float) -> float:
    """The nearest float32."""
    (nearest,) = unpack("f", pack("f", value))
    return float(nearest)


LEAST = single(1e-6)
"""A draft that survives less often is never worth a token of the budget."""


def limits(config: Config) -> tuple[int, int]:
    """Fewest and most drafts that a request verifies."""
    return config.min_verify_len, config.max_verify_len or config.max_draft_len


def survivals(rows: Sequence[Row]) -> list[list[float]]:
    """How likely each draft is to be reached and kept, rounded to float32 at each factor."""
    products = []
    for row in rows:
        products.append([1.0])
        for confidence in row:
            products[-1].append(single(products[-1][-1] * confidence))
    return [product[1:] for product in products]


def allotted(config: Config, rows: Sequence[Row]) -> tuple[list[float], list[float]]:
    """Survivals of the drafts that every request verifies, and of those that may be added, the
    best first."""
    fewest, most = limits(config)
    chances = survivals(rows)
    granted = [chance for row in chances for chance in row[:fewest]]
    others = [chance for row in chances for chance in row[fewest:most] if chance >= LEAST]
    return granted, sorted(others, reverse=True)


def granted(config: Config, rows: Sequence[Row], budget: int) -> list[int]:
    """Drafts per request: one by one to whose next draft has the best chance, the earlier one, then
    the first request, if they are equal."""
    fewest, most = limits(config)
    chances, lengths = survivals(rows), [fewest] * len(rows)
    for _ in range(budget):
        open_rows = [g for g, n in enumerate(lengths) if n < most and chances[g][n] >= LEAST]
        if not open_rows:
            break
        best = min(open_rows, key=lambda g: (-chances[g][lengths[g]], lengths[g], g))
        lengths[best] += 1
    return lengths


def padded(
    config: Config, rows: Sequence[Row], budget: int, padding: int, bucket: int
) -> list[int]:
    """The windows that fill a bucket: slack goes round the real rows first, then the others."""
    widest = 1 + limits(config)[1]
    windows = [1 + n for n in granted(config, rows, budget)] + [1] * padding
    for members in (range(len(rows)), range(len(rows), len(windows))):
        while sum(windows) < bucket and any(windows[g] < widest for g in members):
            for g in members:
                windows[g] += sum(windows) < bucket and windows[g] < widest
    return windows


def captured_shape(config: Config, *steps: tuple[int, int]) -> tuple[int, int | None] | None:
    """Rows and token bucket of the one graph that serves the planned steps of all ranks.

    steps: of each, how many requests and what budget. The fewest rows, then the fewest tokens, that
    hold the largest windows the budgets may give; the bucket is None where the configuration has
    none. None: there is no graph.
    """
    fewest, most = limits(config)
    for rows in config.graph_batch_sizes:
        if rows < max(1, *(real for real, _ in steps)):
            continue
        if not config.verify_buckets:
            return rows, None
        least = max(
            rows + real * fewest + min(budget, real * (most - fewest)) for real, budget in steps
        )
        for bucket in config.verify_buckets:
            if least <= bucket <= rows * (1 + most):
                return rows, bucket
    return None
