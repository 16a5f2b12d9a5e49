"""What the host knows of confidences: late, while the worker plans with its own (section 14).

A worker verifies the drafts of its last step. The host chooses their number, or in a mixed batch
their windows too, before it has heard of that step: its newest snapshot is one step older.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import isfinite, nan

from draftproof.reference.confidence import Rows, Snapshot, calibrated, survival
from draftproof.reference.ragged import Load, Shape, agreed_shape
from draftproof.reference.scheduler import (
    best_budget,
    limits_of,
    rate_of,
    spendable,
    verify_windows,
)
from draftproof.reference.vocabulary import Config

OLDEST = 2
"""How much older a snapshot may be than the drafts that are verified, in steps."""


class Snapshots:
    """The last ones, by age."""

    def __init__(self) -> None:
        self._taken: list[Snapshot | None] = []

    def keep(self, snapshot: Snapshot | None) -> None:
        """That of the step that has just run; None: it failed."""
        self._taken = [snapshot, *self._taken][: OLDEST + 1]

    @property
    def newest(self) -> Snapshot | None:
        """That of the step that made the drafts to verify, which the host has not seen yet."""
        return self._taken[0] if self._taken else None

    def old(self, age: int) -> Snapshot | None:
        """One so many steps older than those drafts, 1 .. OLDEST; None: it is not ready."""
        return self._taken[age] if 0 < age < len(self._taken) else None


def confidences(config: Config, logits: Rows, broken: Sequence[int] = ()) -> array[float]:
    """c_k of every row of logits, flat; NaN where a logit is not finite, and in the `broken` rows.

    Both sides of a lockstep are handed these numbers.
    """
    flat = array("f")
    for number, row in enumerate(logits):
        if number in broken or not all(map(isfinite, row)):
            flat.extend([nan] * len(row))
        else:
            flat.extend(calibrated([row], config.sts_temperatures)[0])
    return flat


def budget_of(config: Config, asked: int, rows: Rows) -> int:
    """How many drafts a step verifies above the fewest of each request.

    rows: c_k of its requests in the host's snapshot. A fixed budget, or else what the table of this
    deployment says, or else what is asked for; with early stopping the table is not the host's.
    """
    if config.verify_budget is not None:
        return config.verify_budget
    rate = rate_of(config)
    if rate is None or config.early_stopping:
        return asked
    return best_budget(survival(rows, len(rows)), rate, limits_of(config))


def host_windows(config: Config, budget: int, rows: Rows) -> list[int]:
    """The windows of a mixed batch, which has no time to wait for the worker's own."""
    survivals = survival(rows, len(rows))
    budget = spendable(config, survivals, budget)
    windows = verify_windows(survivals, budget, limits_of(config), len(rows))
    assert windows is not None, "the snapshot is ready"
    return windows


def shape_of(config: Config, real: int, budget: int) -> Shape | None:
    """The graph of a planned step over so many requests; tokens 0: any. None: there is none."""
    if not config.verify_buckets:
        fitting = [size for size in config.graph_batch_sizes if size >= max(1, real)]
        return Shape(fitting[0], 0) if fitting else None
    return shape_for(config, [load_of(config, real, budget)])


def load_of(config: Config, real: int, budget: int) -> Load:
    """The worker may grant fewer drafts than the budget has, so the largest number decides."""
    limits = limits_of(config)
    most = real * (1 + limits.fewest) + min(budget, real * (limits.most - limits.fewest))
    return Load(real, most)


def shape_for(config: Config, loads: Sequence[Load]) -> Shape | None:
    """The graph with a token bucket that serves every rank's planned step, or None."""
    widest = limits_of(config).most + 1
    return agreed_shape(loads, config.graph_batch_sizes, config.verify_buckets, widest)
