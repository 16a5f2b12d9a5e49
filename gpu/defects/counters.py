"""Defects of what a step moves on, and of what is drawn and emitted in it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from draftproof.gpu.defects.planted import Planted
from draftproof.gpu.inputs import Inputs
from draftproof.gpu.operations import Verified
from draftproof.reference.vocabulary import Batch, StepResult


class PositionByRounds(Planted):
    """Position moves on by one a step, however many tokens were accepted: POS-5."""

    def _verify(self, inputs: Inputs) -> Verified:
        verified = super()._verify(inputs)
        start = verified.old + 1
        self.memory.ctx_len[self._generation_slots(inputs)] = start
        return verified._replace(start=start)


class LengthByRounds(Planted):
    """Position moves on by the accepted tokens, but the length beside it by one a step: POS-8."""

    def _verify(self, inputs: Inputs) -> Verified:
        memory, slots = self.memory, self._generation_slots(inputs)
        before = memory.valid_len[slots]
        verified = super()._verify(inputs)
        valid = (before + 1).clamp(max=self.config.window_size)
        memory.valid_len[slots] = valid
        return verified._replace(valid=valid)


class BoundaryNotRolledBack(Planted):
    """After a rejection the next step goes on behind the rejected rows: ROLL-3."""

    def _verify(self, inputs: Inputs) -> Verified:
        verified = super()._verify(inputs)
        rows = inputs.drafts.shape[1] + 1 if inputs.windows is None else inputs.windows
        self.memory.ctx_len[self._generation_slots(inputs)] = verified.old + rows
        return verified


class PlainStepFromBlockStart(Planted):
    """A step without drafts goes on from the first row of the block before it: ROLL-5."""

    def _verify(self, inputs: Inputs) -> Verified:
        memory, slots = self.memory, self._generation_slots(inputs)
        firsts: Tensor = vars(self).setdefault("firsts", memory.ctx_len.clone())
        if not inputs.drafts.shape[1]:
            same = memory.ctx_len[slots] == inputs.positions  # not a new request
            memory.ctx_len[slots] = torch.where(same, firsts[slots], memory.ctx_len[slots])
        verified = super()._verify(inputs)
        firsts.copy_(memory.ctx_len)
        firsts[slots] = verified.old + 1
        return verified


class DraftsAtLengthZero(Planted):
    """The drafter has one width, so it also runs in a step without drafts: GAP-4."""

    def _store(self, inputs: Inputs, verified: Verified) -> None:
        super()._store(inputs, verified)
        if not inputs.drafts.shape[1]:
            self._draft(inputs, verified)


class NothingToVerifyRaw(Planted):
    """Acceptance writes nothing for a window of an anchor alone; what was there is sent: ROW-14."""

    def _verify(self, inputs: Inputs) -> Verified:
        verified = super()._verify(inputs)
        if inputs.windows is None:
            return verified
        first = torch.where(inputs.windows == 1, inputs.drafts[:, 0], verified.tokens[:, 0])
        return verified._replace(tokens=torch.cat([first.unsqueeze(1), verified.tokens[:, 1:]], 1))


class RecoveredThrownAway(Planted):
    """The token drawn behind a rejected draft is not handed on: BONUS-3."""

    def _step(self, batch: Batch, at: Callable[[str], None]) -> StepResult:
        result = super()._step(batch, at)
        if not batch.all_greedy and batch.draft_len:
            rejected = result.new_tokens_lens <= batch.draft_len
            rejected[: len(batch.contexts)] = False
            result.new_tokens_lens -= rejected.to(torch.int64)
        return result
