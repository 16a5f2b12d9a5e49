"""Defects of what is drafted: where a block begins, what it looks at, which of its rows count."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.gpu.constants import ramp
from draftproof.gpu.defects.bases import Repacked
from draftproof.gpu.defects.planted import Planted
from draftproof.gpu.inputs import Inputs
from draftproof.gpu.operations import Verified
from draftproof.reference.vocabulary import Batch


class DraftsOfNextRow(Planted):
    """Draft k is taken from row k + 1 of the block, as if the anchor's row said nothing: POS-10."""

    def _draft(self, inputs: Inputs, verified: Verified) -> Tensor:
        return super()._draft(inputs, verified).roll(-1, 1)


class DraftsFromSlotZero(Planted):
    """The drafter is always shown the context in slot 0: SLOT-11."""

    def _draft(self, inputs: Inputs, verified: Verified) -> Tensor:
        windows, slots = self.memory.windows, self._generation_slots(inputs)
        own = windows[slots]
        windows[slots] = windows[0].clone()
        drafts = super()._draft(inputs, verified)
        windows[slots] = own
        return drafts


class BlocksOfEqualLength(Planted):
    """All blocks begin as if everybody had accepted as much as the first request: ROW-20."""

    def _draft(self, inputs: Inputs, verified: Verified) -> Tensor:
        start = verified.old + verified.counts[:1]
        return super()._draft(inputs, verified._replace(start=start))


class FirstOffsetBeforeArray(Repacked):
    """The first request's rows begin where the element before the first offset says: ROW-19."""

    def _read(self, batch: Batch) -> Inputs:
        inputs = super()._read(batch)
        if inputs.windows is None or inputs.sampling is not None:
            return inputs
        ends = inputs.windows.cumsum(0)
        return self._at(batch, inputs, ends.roll(1))


class RowsBeyondEight(Planted):
    """Blocks of the ninth row and of those behind it begin nowhere; no public report.

    A kernel that takes eight rows at once, launched once.
    """

    def _draft(self, inputs: Inputs, verified: Verified) -> Tensor:
        start = torch.where(ramp(len(verified.start), self.device) < 8, verified.start, 0)
        return super()._draft(inputs, verified._replace(start=start))
