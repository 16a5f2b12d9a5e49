"""What the worker asks of the device: the operations, and their eager form.

`dispatch` chooses once between these and their Triton twins. An operation never waits for the
device, and its shapes follow from the host's numbers alone, but for prompts, which no graph holds.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor

from draftproof.gpu import philox
from draftproof.gpu.acceptance import strict
from draftproof.gpu.advance import advance
from draftproof.gpu.constants import one_hot, ramp
from draftproof.gpu.exact_drafter import (
    confidence,
    context_sum,
    draft_argmax,
    draft_sampled,
    fixed_argmax,
    fixed_sampled,
)
from draftproof.gpu.inputs import Inputs
from draftproof.gpu.memory import Memory
from draftproof.gpu.rejection import Sampling, reject
from draftproof.gpu.vocabulary import Drafting, scatter_vocabulary
from draftproof.gpu.window import staged, visible_columns, write_accepted, write_frames


class Counters(NamedTuple):
    """What acceptance moves on: ctx_len, valid_len int64 [S + 1], initialized bool [S + 1];
    slots, positions (of the anchors) int64 [G]; width: W.
    """

    ctx_len: Tensor
    valid_len: Tensor
    initialized: Tensor
    slots: Tensor
    positions: Tensor
    width: int


class Verified(NamedTuple):
    """What each generation got, and where that left it (sections 6 and 7).

    tokens: int64 [G, R], 0 from n on; counts: n = accepted + 1; old: its frames before; start =
    old + n; valid: its visible frames now; all int64 [G].
    """

    tokens: Tensor
    counts: Tensor
    old: Tensor
    start: Tensor
    valid: Tensor


class Prompt(NamedTuple):
    """Rows of prompts to be stored (section 5).

    rows: [token rows, D]; sources: int64 [N], which of them are stored; slots, frames: int64 [N],
    no two of the same slot and column.
    """

    rows: Tensor
    sources: Tensor
    slots: Tensor
    frames: Tensor


class Accepted(NamedTuple):
    """Rows of generations, of which the accepted ones are stored (section 7).

    rows: [G, R, D]; slots, old, counts: int64 [G].
    """

    rows: Tensor
    slots: Tensor
    old: Tensor
    counts: Tensor


class Operations(Protocol):
    """The operations; `Eager` is the definition of each."""

    def uniforms(self, seeds: philox.Seeds, count: int) -> Tensor:
        """Random numbers, as `gpu.philox.uniforms` says."""

    def verify(self, inputs: Inputs, probs: Tensor | None, counters: Counters) -> Verified:
        """Acceptance, by sampling where the step says so, and the counters moved on by it.

        probs: float32 [S + 1, K, V], draft probabilities by sequence slot.
        """

    def store(self, windows: Tensor, prompt: Prompt | None, accepted: Accepted | None) -> None:
        """Hidden rows into the windows [S + 1, stages, W, D], every stage under its number."""

    def draft(
        self,
        inputs: Inputs,
        memory: Memory,
        slots: Tensor,
        verified: Verified,
        drafting: Drafting,
    ) -> Tensor:
        """A block of drafts, int64 [G, K]; its confidences and probabilities are remembered.

        slots: int64 [G].
        """

    def publish_one_hot(self, probs: Tensor, seq_slots: Tensor, tokens: Tensor) -> None:
        """One-hot rows of the tokens, int64 [N, K], at their sequence slots, int64 [N]."""


class Eager:
    """Torch, one operation after the other."""

    def uniforms(self, seeds: philox.Seeds, count: int) -> Tensor:
        """Section 6."""
        return philox.uniforms(seeds, count)

    def verify(self, inputs: Inputs, probs: Tensor | None, counters: Counters) -> Verified:
        """Sections 6 and 7."""
        if inputs.sampling is None or probs is None:
            tokens, counts = strict(inputs.drafts, inputs.target, inputs.windows)
        else:
            own = probs[inputs.generation_seq_slots]
            tokens, counts = reject(inputs.drafts, own, inputs.sampling, inputs.windows)
        moved = advance(*counters[:5], counts, counters.width)
        return Verified(tokens, counts, *moved)

    def store(self, windows: Tensor, prompt: Prompt | None, accepted: Accepted | None) -> None:
        """Sections 5 and 7."""
        stages = windows.shape[1]
        if prompt is not None:
            rows = staged(prompt.rows[prompt.sources], stages)
            write_frames(windows, prompt.slots, prompt.frames, rows)
        if accepted is not None:
            write_accepted(windows, *accepted[1:], staged(accepted.rows, stages))

    def draft(
        self,
        inputs: Inputs,
        memory: Memory,
        slots: Tensor,
        verified: Verified,
        drafting: Drafting,
    ) -> Tensor:
        """Sections 8a and 19."""
        start, valid, counts = verified.start, verified.valid, verified.counts
        bonus = verified.tokens.gather(1, counts.unsqueeze(1) - 1).squeeze(1)
        frames, visible = visible_columns(start, valid, memory.windows.shape[2])
        total = context_sum(memory.windows[slots], frames, visible)
        block, sampling = memory.confidence_logits.shape[1], inputs.sampling
        probs, owners = memory.draft_probs, inputs.generation_seq_slots
        if sampling is None:
            tokens = _argmax_block(drafting, total, start, bonus, block)
            drafts = drafting.widened(tokens)
            if probs is not None:
                self.publish_one_hot(probs, owners, drafts)
        else:
            uniforms = block_uniforms(sampling, counts)
            tokens, p = _sampled_block(drafting, total, start, bonus, sampling.greedy, uniforms)
            drafts = drafting.widened(tokens)
            if probs is not None:
                _publish_law(probs, owners, p, drafting.inverse)
        memory.confidence_logits[slots] = confidence(total, bonus, tokens)
        memory.confidence_stamp[slots] = memory.draft_seq
        return drafts

    def publish_one_hot(self, probs: Tensor, seq_slots: Tensor, tokens: Tensor) -> None:
        """Sections 6 and 19."""
        probs[seq_slots] = one_hot(tokens, probs.shape[2])


def block_uniforms(sampling: Sampling, counts: Tensor) -> Tensor:
    """The numbers of the block behind n = counts new tokens, float32 [G, K]; counts: int64 [G]."""
    return sampling.draft_uniforms[ramp(len(counts), counts.device), counts - 1]


def _argmax_block(
    drafting: Drafting, total: Tensor, start: Tensor, bonus: Tensor, block: int
) -> Tensor:
    """The most likely draft tokens, int64 [G, K]."""
    if drafting.law is not None:
        return fixed_argmax(drafting.law, len(bonus))
    return draft_argmax(total, start, bonus, block, drafting.vocab)


def _sampled_block(
    drafting: Drafting,
    total: Tensor,
    start: Tensor,
    bonus: Tensor,
    greedy: Tensor,
    uniforms: Tensor,
) -> tuple[Tensor, Tensor]:
    """Draft tokens drawn, int64 [G, K], and what they were drawn from, float32 [G, K, vocab]."""
    if drafting.law is not None:
        return fixed_sampled(drafting.law, greedy, uniforms)
    return draft_sampled(total, start, bonus, greedy, uniforms, drafting.vocab)


def _publish_law(probs: Tensor, seq_slots: Tensor, p: Tensor, inverse: Tensor | None) -> None:
    """Rows over the draft vocabulary, at their sequence slots."""
    if inverse is None:
        probs[seq_slots] = p
    else:
        scatter_vocabulary(probs, seq_slots, p, inverse)
