"""Defects of acceptance, of the counters, and of steps without drafts."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.gpu.advance import advance
from draftproof.gpu.defects.planted import Planted
from draftproof.gpu.inputs import Inputs

Counters = tuple[Tensor, Tensor, Tensor]


class ZeroStepDoesNotAdvance(Planted):
    """A step without drafts skips the drafter's window and counters altogether: GAP-1, GAP-2."""

    def _advance(self, inputs: Inputs, counts: Tensor) -> Counters:
        if not inputs.drafts.shape[1]:
            return counts, counts, counts  # nobody drafts, so nobody looks at them
        return super()._advance(inputs, counts)


class ZeroStepReadsContextRows(Planted):
    """A step without drafts takes generation g's row from packed row g, contexts first: ROW-6."""

    def _advance(self, inputs: Inputs, counts: Tensor) -> Counters:
        if not inputs.drafts.shape[1]:
            packed = torch.cat([inputs.context_hidden.unsqueeze(1), inputs.hidden])
            inputs = inputs._replace(hidden=packed[: len(counts)])
        return super()._advance(inputs, counts)


class ValidLenNotClamped(Planted):
    """`valid_len` counts frames that the window has lost too; no public report."""

    def _count(self, slots: Tensor, positions: Tensor, counts: Tensor) -> Counters:
        memory = self.memory
        counters = memory.ctx_len, memory.valid_len, memory.initialized
        return advance(*counters, slots, positions, counts, width=2**62)


class UnwrittenColumnsVisible(Planted):
    """The visible columns of an imported request follow from its position alone: POS-3, CTX-1."""

    def _count(self, slots: Tensor, positions: Tensor, counts: Tensor) -> Counters:
        imported = ~self.memory.initialized[slots]
        old, start, valid = super()._count(slots, positions, counts)
        valid = torch.where(imported, start.clamp(max=self.config.window_size), valid)
        self.memory.valid_len[slots] = valid
        return old, start, valid


class AcceptBeyondWindow(Planted):
    """Acceptance takes every generation to be 1 + r rows wide, whatever its window: ROW-1, ROW-17.

    Past the window it compares with the rows of whoever follows.
    """

    def _accept(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        return super()._accept(inputs._replace(windows=None))
