"""The worker's operations as launches of kernels."""

from __future__ import annotations

from torch import Tensor

from draftproof.gpu.inputs import Inputs
from draftproof.gpu.kernels.acceptance import verify
from draftproof.gpu.kernels.exact_drafter import Confidences, Draws, draft
from draftproof.gpu.kernels.probabilities import write_one_hot
from draftproof.gpu.kernels.rejection import reject
from draftproof.gpu.kernels.windows import write_windows
from draftproof.gpu.memory import Memory
from draftproof.gpu.operations import Accepted, Counters, Prompt, Verified


class Kernels:
    """`gpu.operations.Operations`: each method does what `Eager`'s does."""

    def verify(self, inputs: Inputs, probs: Tensor | None, counters: Counters) -> Verified:
        """One launch; two with sampling."""
        if inputs.sampling is None or probs is None:
            return verify(inputs.drafts, inputs.target, inputs.windows, counters)
        return reject(
            inputs.drafts,
            probs,
            inputs.generation_seq_slots,
            inputs.sampling,
            inputs.windows,
            counters,
        )

    def store(self, windows: Tensor, prompt: Prompt | None, accepted: Accepted | None) -> None:
        """One launch for both."""
        write_windows(windows, prompt, accepted)

    def draft(
        self, inputs: Inputs, memory: Memory, slots: Tensor, verified: Verified, vocab: int
    ) -> Tensor:
        """One launch; two if probabilities are kept."""
        sampling, draws, greedy = inputs.sampling, None, None
        if sampling is not None:
            greedy = sampling.greedy
            draws = Draws(greedy, sampling.draft_uniforms)
        confidences = Confidences(
            memory.confidence_logits, memory.confidence_stamp, memory.draft_seq
        )
        drafts, best = draft(memory.windows, slots, verified, confidences, vocab, draws)
        if memory.draft_probs is not None:
            write_one_hot(memory.draft_probs, inputs.generation_seq_slots, best, greedy)
        return drafts

    def publish_one_hot(self, probs: Tensor, seq_slots: Tensor, tokens: Tensor) -> None:
        """One launch."""
        write_one_hot(probs, seq_slots, tokens)
