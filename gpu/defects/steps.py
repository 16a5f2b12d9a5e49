"""Defects of acceptance, of the counters, and of steps without drafts."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.gpu.defects.planted import Planted
from draftproof.gpu.inputs import Inputs
from draftproof.gpu.operations import Counters, Verified
from draftproof.reference.vocabulary import Batch, StepResult


class ZeroStepDoesNotAdvance(Planted):
    """A step without drafts skips the drafter's window and counters altogether: GAP-1, GAP-2.

    It moves the scratch row on instead.
    """

    def _generation_slots(self, inputs: Inputs) -> Tensor:
        slots = super()._generation_slots(inputs)
        return slots if inputs.drafts.shape[1] else torch.full_like(slots, self.scratch)


class ZeroStepReadsContextRows(Planted):
    """A step without drafts takes generation g's row from packed row g, contexts first: ROW-6."""

    def _store(self, inputs: Inputs, verified: Verified) -> None:
        if not inputs.drafts.shape[1]:
            packed = torch.cat([inputs.context_hidden.unsqueeze(1), inputs.hidden])
            inputs = inputs._replace(hidden=packed[: len(inputs.positions)])
        super()._store(inputs, verified)


class ValidLenNotClamped(Planted):
    """`valid_len` counts frames that the window has lost too; no public report."""

    def _counters(self, inputs: Inputs) -> Counters:
        return super()._counters(inputs)._replace(width=2**62)


class UnwrittenColumnsVisible(Planted):
    """The visible columns of an imported request follow from its position alone: POS-3, CTX-1."""

    def _verify(self, inputs: Inputs) -> Verified:
        memory, slots = self.memory, self._generation_slots(inputs)
        imported = ~memory.initialized[slots]
        verified = super()._verify(inputs)
        every = verified.start.clamp(max=self.config.window_size)
        memory.valid_len[slots] = valid = torch.where(imported, every, verified.valid)
        return verified._replace(valid=valid)


class AcceptBeyondWindow(Planted):
    """Acceptance takes every generation to be 1 + r rows wide, whatever its window: ROW-1, ROW-17.

    Past the window it compares with the rows of whoever follows.
    """

    def _verify(self, inputs: Inputs) -> Verified:
        return super()._verify(inputs._replace(windows=None))


class ResultOverwritten(Planted):
    """Every step leaves its new tokens in one buffer, whoever still has to read them: LAG-5."""

    def _forward_impl(self, batch: Batch) -> StepResult:
        result = super()._forward_impl(batch)
        shape = self.config.max_num_requests, 1 + self.config.max_draft_len
        whole = self.__dict__.setdefault("tokens", torch.zeros(shape, dtype=torch.int64))
        result.new_tokens = whole[: len(batch.rows), : 1 + batch.draft_len].copy_(result.new_tokens)
        return result
