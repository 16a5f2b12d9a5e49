"""More defects of guided decoding: what a matcher has taken in, and which rows are masked."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from draftproof.gpu.choosing import Chooser
from draftproof.gpu.defects.bases import Choosing
from draftproof.gpu.guided import Matchers, Walkers
from draftproof.gpu.inputs import Inputs
from draftproof.gpu.operations import Verified
from draftproof.gpu.penalties import count
from draftproof.reference.vocabulary import Batch


class _BegunAhead(Matchers):
    def begin(self, seq_slot: int, grammar: int) -> None:
        super().begin(seq_slot, grammar)
        self.ahead[seq_slot] = 1

    def along(self, seq_slot: int, drafts: Sequence[int]) -> bytes:
        before = self.ahead[seq_slot] if drafts else 0
        masks = super().along(seq_slot, drafts)
        self.ahead[seq_slot] += before
        return masks

    def settle(self, seq_slot: int, tokens: Sequence[int]) -> None:
        super().settle(seq_slot, tokens)
        self.ahead[seq_slot] = 0


class RollBackTooFar(Choosing):
    """What is to be taken back is counted from 1 for a new matcher: GRAM-3."""

    matchers_type = _BegunAhead


class _DeadEnds(Matchers):
    def along(self, seq_slot: int, drafts: Sequence[int]) -> bytes:
        masks, vocab = super().along(seq_slot, drafts), len(self.free)
        ahead = self.ahead[seq_slot]
        last = masks[ahead * vocab : (ahead + 1) * vocab]
        if self.slots[seq_slot] is not None and ahead and sum(last) == 1:
            self.ahead[seq_slot] -= 1
        return masks


class DeadEndNotCounted(Choosing):
    """The draft behind which nothing but the end may come is not counted as taken in: GRAM-4."""

    matchers_type = _DeadEnds


class _EndsUncounted(Matchers):
    def along(self, seq_slot: int, drafts: Sequence[int]) -> bytes:
        masks, end = super().along(seq_slot, drafts), len(self.free) - 1
        if self.slots[seq_slot] is not None and end in drafts[: self.ahead[seq_slot]]:
            self.ahead[seq_slot] -= 1
        return masks


class FinishNotCounted(Choosing):
    """A draft that ends the text is taken in, but not counted as such: GRAM-12."""

    matchers_type = _EndsUncounted


class _OffAtPlaceholder(Chooser):
    def masks(self, batch: Batch, inputs: Inputs) -> Tensor | None:
        masks = super().masks(batch, inputs)
        if masks is None:
            return None
        contexts, rows = len(batch.contexts), batch.draft_len + 1
        for g, row in enumerate(batch.generations):
            if row.proposed < batch.draft_len:
                first = contexts + g * rows
                masks[first + row.proposed : first + rows] = True
        return masks


class MaskOffAtPlaceholder(Choosing):
    """A draft that was not proposed switches the mask off, from its own row on: GRAM-5."""

    chooser_type = _OffAtPlaceholder


class _NeverBack(Chooser):
    def draft(self, slots: Tensor, verified: Verified, walkers: Walkers) -> Tensor:
        drafts = super().draft(slots, verified, walkers)
        for walker, own in zip(walkers, drafts.tolist(), strict=True):
            if walker is not None:
                walker.advance(own[0])
        return drafts


class WalkNotTakenBack(Choosing):
    """The grammar has no way back from the first draft that was tried: GRAM-11."""

    chooser_type = _NeverBack


class _Rejected(Chooser):
    def commit(self, batch: Batch, inputs: Inputs, verified: Verified) -> None:
        counts, drafts, accepted = self.state[0], inputs.drafts, verified.counts - 1
        if batch.draft_len:
            first = drafts.gather(1, accepted.clamp(max=batch.draft_len - 1).unsqueeze(1))
            rejected = (accepted < batch.draft_len).to(counts.dtype)
            count(counts, inputs.generation_seq_slots, first, rejected)
        super().commit(batch, inputs, verified)


class RejectedDraftCounted(Choosing):
    """Penalties saw the draft that was rejected, and it is not taken out again: PEN-4."""

    chooser_type = _Rejected
