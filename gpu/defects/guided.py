"""Defects of guided decoding and of penalties (section 19)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from draftproof.gpu.choosing import Chooser
from draftproof.gpu.defects.bases import Choosing
from draftproof.gpu.defects.planted import Planted
from draftproof.gpu.guided import Matchers
from draftproof.gpu.inputs import Inputs
from draftproof.gpu.operations import Verified
from draftproof.gpu.penalties import Asked, count
from draftproof.reference.vocabulary import UNDONE, Batch, StepResult

# Matchers


class _NotRolledBack(Matchers):
    def settle(self, seq_slot: int, tokens: Sequence[int]) -> None:
        self.ahead[seq_slot] = len(tokens) - 1
        super().settle(seq_slot, tokens)


class GrammarNotRolledBack(Choosing):
    """Drafts that masks were made along stay taken in when they are rejected: GRAM-1."""

    matchers_type = _NotRolledBack


class _BonusLeftOut(Matchers):
    def settle(self, seq_slot: int, tokens: Sequence[int]) -> None:
        super().settle(seq_slot, tokens)
        matcher = self.slots[seq_slot]
        if matcher is not None:
            matcher.rollback(1)


class GrammarWithoutBonus(Choosing):
    """The grammar takes in what was accepted, but not the token behind it; no public report."""

    matchers_type = _BonusLeftOut


class _LateMasks(Matchers):
    def along(self, seq_slot: int, drafts: Sequence[int]) -> bytes:
        masks, vocab = super().along(seq_slot, drafts), len(self.free)
        return masks[:vocab] + masks[: len(drafts) * vocab]


class MaskOfRowBefore(Choosing):
    """Every row behind a draft is masked as the row before it: what the draft changed is missed.

    No public report.
    """

    matchers_type = _LateMasks


class _OffAtIllegal(Matchers):
    def along(self, seq_slot: int, drafts: Sequence[int]) -> bytes:
        masks = super().along(seq_slot, drafts)
        if self.slots[seq_slot] is not None and self.ahead[seq_slot] < len(drafts):
            self.slots[seq_slot] = None
        return masks


class GuidanceOffAtIllegalDraft(Choosing):
    """A request whose draft was not allowed is not guided any more: GRAM-2."""

    matchers_type = _OffAtIllegal


# Masks


class _ZeroStepFree(Chooser):
    def masks(self, batch: Batch, inputs: Inputs) -> Tensor | None:
        masks = super().masks(batch, inputs)
        return masks if batch.draft_len else None


class ZeroStepUnmasked(Choosing):
    """A step without drafts is not masked; no public report."""

    chooser_type = _ZeroStepFree


class _Unmasked(Chooser):
    def masks(self, batch: Batch, inputs: Inputs) -> Tensor | None:
        super().masks(batch, inputs)
        return None


class GuidanceOffAfterFailure(Planted):
    """Once a step has failed, nothing is masked any more; no public report."""

    def _forward_impl(self, batch: Batch) -> StepResult:
        try:
            return super()._forward_impl(batch)
        except BaseException:
            if (old := self.chooser) is not None:
                slots, vocab = self.config.max_num_requests, self.config.vocab_size
                self.chooser = _Unmasked(old.matchers.guide, self.memory, slots, vocab)
                self.chooser.matchers, self.chooser.owners = old.matchers, old.owners
            raise


class _WarmUpRuns(Chooser):
    def masks(self, batch: Batch, inputs: Inputs) -> Tensor | None:
        if batch.mode in UNDONE:
            self.matchers.masks(batch)
        return super().masks(batch, inputs)


class WarmUpMovesGrammar(Choosing):
    """A warm-up under the names of live requests takes its drafts into their grammars.

    No public report.
    """

    chooser_type = _WarmUpRuns


# Penalties


class _CountedTwice(Chooser):
    def commit(self, batch: Batch, inputs: Inputs, verified: Verified) -> None:
        counts, _ = self.state
        count(counts, inputs.generation_seq_slots, verified.tokens, verified.counts - 1)
        super().commit(batch, inputs, verified)


class AcceptedCountedTwice(Choosing):
    """An accepted draft is counted as a draft, and again as a new token; no public report."""

    chooser_type = _CountedTwice


class _BonusAlone(Chooser):
    def commit(self, batch: Batch, inputs: Inputs, verified: Verified) -> None:
        counts, _ = self.state
        before = counts.clone()
        super().commit(batch, inputs, verified)
        counts.copy_(before)
        last = verified.tokens.gather(1, verified.counts.unsqueeze(1) - 1)
        one = verified.counts.clamp(max=1)
        count(counts, inputs.generation_seq_slots, last, one)


class AcceptedNotCounted(Choosing):
    """Of the new tokens only the one behind the accepted drafts is counted: PEN-3."""

    chooser_type = _BonusAlone


class _OwnersMixed(Chooser):
    def choose(self, batch: Batch, inputs: Inputs) -> Inputs:
        choice = inputs.choice
        assert choice is not None
        asked = Asked(*(values.roll(-len(inputs.context_tokens)) for values in choice.asked))
        return super().choose(batch, inputs._replace(choice=choice._replace(asked=asked)))


class PenaltiesOfOtherRows(Choosing):
    """Penalties are looked up as if a batch began with its generations: PEN-5."""

    chooser_type = _OwnersMixed


class _Inherited(Chooser):
    def admit(self, batch: Batch) -> None:
        counts, prompt = self.state
        before = counts.clone(), prompt.clone()
        super().admit(batch)
        counts.copy_(before[0])
        prompt.logical_or_(before[1])


class CountsInherited(Choosing):
    """A sequence slot is given out with the counts of its last owner; no public report."""

    chooser_type = _Inherited
