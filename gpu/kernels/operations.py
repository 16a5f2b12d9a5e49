"""The worker's operations as launches of kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.gpu.constants import ramp
from draftproof.gpu.inputs import Inputs
from draftproof.gpu.kernels.acceptance import verify
from draftproof.gpu.kernels.exact_drafter import Confidences, Draws, draft
from draftproof.gpu.kernels.philox import uniforms
from draftproof.gpu.kernels.probabilities import scatter_vocabulary, write_one_hot
from draftproof.gpu.kernels.rejection import reject
from draftproof.gpu.kernels.windows import write_windows
from draftproof.gpu.memory import Memory
from draftproof.gpu.operations import (
    Accepted,
    Counters,
    Eager,
    Prompt,
    Verified,
    block_uniforms,
)
from draftproof.gpu.philox import Seeds
from draftproof.gpu.vocabulary import Drafting


class Kernels:
    """`gpu.operations.Operations`: each method does what `Eager`'s does."""

    def uniforms(self, seeds: Seeds, count: int) -> Tensor:
        """One launch."""
        return uniforms(seeds, count)

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
        self,
        inputs: Inputs,
        memory: Memory,
        slots: Tensor,
        verified: Verified,
        drafting: Drafting,
    ) -> Tensor:
        """One launch; two if probabilities are kept, three of a narrower vocabulary.

        A law that the harness has fixed is drawn from by torch.
        """
        if drafting.law is not None:
            return Eager().draft(inputs, memory, slots, verified, drafting)
        sampling, draws, greedy = inputs.sampling, None, None
        if sampling is not None:
            greedy = sampling.greedy
            draws = Draws(greedy, block_uniforms(sampling, verified.counts))
        confidences = Confidences(
            memory.confidence_logits, memory.confidence_stamp, memory.draft_seq
        )
        drafts, best = draft(memory.windows, slots, verified, confidences, drafting.vocab, draws)
        probs, owners = memory.draft_probs, inputs.generation_seq_slots
        if probs is not None and drafting.inverse is None:
            write_one_hot(probs, owners, best, greedy)
        elif probs is not None and drafting.inverse is not None:
            narrow = torch.empty(*best.shape, drafting.vocab, device=probs.device)
            write_one_hot(narrow, ramp(len(narrow), probs.device), best, greedy)
            scatter_vocabulary(probs, owners, narrow, drafting.inverse)
        return drafting.widened(drafts)

    def publish_one_hot(self, probs: Tensor, seq_slots: Tensor, tokens: Tensor) -> None:
        """One launch."""
        write_one_hot(probs, seq_slots, tokens)
