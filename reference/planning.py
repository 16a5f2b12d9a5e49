"""The verify windows of a planned step, by the worker that drafted (semantics, section 14)."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.reference.confidence import Rows, source_rows, survival
from draftproof.reference.ragged import fill_bucket
from draftproof.reference.scheduler import limits_of, spendable, verify_windows
from draftproof.reference.vocabulary import Batch, BatchError, Config


def planned_windows(
    config: Config,
    batch: Batch,
    real: int,
    slots: Sequence[int],
    stamps: Sequence[int],
    draft_seq: int,
) -> list[int]:
    """Windows of a planned step, [G]: idle and padding rows verify their anchor, or fill a bucket.

    real: so many generations stand for requests, the first ones; slots: of all, scratch for the
    others; stamps: [S + 2]; draft_seq: of this step, so the drafts to verify are of the one before.
    Raises BatchError if the bucket cannot be hit.
    """
    if batch.confidences is None or batch.verify_budget is None:
        raise BatchError("no confidences came with this step, or no budget")
    table = rows_of(batch.confidences, config.max_draft_len)
    sources = source_rows(table, stamps, slots, draft_seq - 1)
    survivals = survival([table[source] for source in sources], real)
    limits = limits_of(config)
    budget = spendable(config, survivals[:real], batch.verify_budget)
    windows = verify_windows(survivals, budget, limits, real)
    assert windows is not None, "there are survivals"
    if batch.verify_bucket is None:
        return windows
    padding = len(windows) - real
    return fill_bucket(windows[:real], padding, batch.verify_bucket, limits.most + 1)


def rows_of(flat: Sequence[float], width: int) -> Rows:
    """The table [rows][width] that a buffer holds."""
    return [flat[i : i + width] for i in range(0, len(flat), width)]
