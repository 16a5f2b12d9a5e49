"""What attention is set up for: rows per row of a batch (sections 10 and 19)."""

from __future__ import annotations

from draftproof.reference.vocabulary import Batch


def target_rows(batch: Batch) -> list[int]:
    """For the target, [B]: a chunk's length, 1 + r for each generation whatever its window."""
    return [row.length for row in batch.contexts] + [1 + batch.draft_len] * len(batch.generations)


def drafter_rows(batch: Batch, block: int) -> list[int]:
    """For the drafter, [B]: a block for each generation, nothing for contexts; none at r = 0."""
    drafted = block if batch.draft_len else 0
    return [0] * len(batch.contexts) + [drafted] * len(batch.generations)
