"""Engines that serve as they should, and publish other numbers."""

from __future__ import annotations

from draftproof.reference.vocabulary import UNDONE, Batch
from draftproof.sim.engine import Engine


class PlaceholdersCounted(Engine):
    """A block of r counts as r drafts, placeholders or not: STAT-3."""

    def _count(self, batch: Batch, b: int, tokens: int, emitted: int) -> None:
        g, r = b - len(batch.contexts), batch.draft_len
        verified = r if g < 0 or batch.verify_lens is None else batch.verify_lens[g] - 1
        own = (r, verified) if g >= 0 else (0, 0)
        self.tally.delivered(batch.rows[b].incarnation, own, tokens, emitted)


class FailureCountedAsAccepted(Engine):
    """A step that failed counts as if all its drafts had been accepted; no public report."""

    def failed(self, batch: Batch, prepared: bool = True) -> None:
        super().failed(batch, prepared)
        for b, row in enumerate(batch.rows):
            if row.incarnation and batch.mode not in UNDONE:
                tokens = 1 + self.tally.own_drafts(batch, b)[1]
                self._count(batch, b, tokens, tokens)


class DroppedCountedAsEmitted(Engine):
    """The counter of emitted tokens walks over all of an accepted run, past the end: STAT-5."""

    def _count(self, batch: Batch, b: int, tokens: int, emitted: int) -> None:
        super()._count(batch, b, tokens, tokens)


class WithheldCounted(Engine):
    """A result that comes when its request is over counts all the same: LAG-1, STAT-4."""

    def _withhold(self, batch: Batch, b: int) -> None:
        if batch.rows[b].incarnation:
            self._count(batch, b, 1, 1)
