"""The outputs of a step, contexts first (sections 4, 6 and 8)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from draftproof.reference.vocabulary import Batch, StepResult, WindowSource


def publish(
    batch: Batch, context_tokens: Tensor, tokens: Tensor, counts: Tensor, drafts: Tensor
) -> StepResult:
    """Put contexts and generations together.

    context_tokens: int64 [C], one token of the target each; tokens: int64 [G, 1 + r]; counts:
    int64 [G]; drafts: int64 [G, K or r], cut to r. Contexts propose zeros.
    """
    r, contexts = batch.draft_len, len(batch.contexts)
    drafts = drafts[:, :r]
    if contexts:
        tokens = torch.cat([pad(context_tokens.unsqueeze(1), (0, r)), tokens])
        counts = pad(counts, (contexts, 0), value=1)
        drafts = pad(drafts, (0, 0, contexts, 0))
    bonus = tokens.gather(1, counts.unsqueeze(1) - 1)
    return StepResult(
        new_tokens=tokens,
        new_tokens_lens=counts,
        next_draft_tokens=drafts,
        next_new_tokens=torch.cat([bonus, drafts], 1),
        window_source=window_source(batch),
    )


def window_source(batch: Batch) -> WindowSource:
    """Where the verify windows of this step are published (section 19)."""
    if batch.verify_lens is None:
        return "uniform"
    return "snapshot" if batch.contexts else "windows"
