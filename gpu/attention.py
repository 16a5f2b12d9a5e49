"""What the target's attention is set up for, which drafting changes and has to put back."""

from __future__ import annotations

from draftproof.reference.vocabulary import Batch


class Attention:
    """The token rows of each row of the batch, as attention metadata has them.

    An engine's metadata also holds lengths on the device; all of it stands and falls together.
    """

    def __init__(self) -> None:
        self.rows: list[int] = []
        self._target: list[int] | None = None

    def set_up(self, batch: Batch) -> None:
        """For the target: a chunk's length, 1 + r for each generation."""
        generations = [1 + batch.draft_len] * len(batch.generations)
        self.rows = [row.length for row in batch.contexts] + generations

    def begin_drafting(self, batch: Batch, block: int) -> None:
        """For the drafter: a block for each generation, nothing for contexts; none at r = 0."""
        self._target = self.rows
        drafted = block if batch.draft_len else 0
        self.rows = [0] * len(batch.contexts) + [drafted] * len(batch.generations)

    def restore(self) -> None:
        """For the target again, as it was before drafting."""
        if self._target is not None:
            self.rows, self._target = self._target, None
