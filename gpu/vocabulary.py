"""Draft probabilities over a narrower vocabulary than the target's (section 6)."""

from __future__ import annotations

import torch
from torch import Tensor


def inverse_map(d2t: Tensor, vocab: int) -> Tensor:
    """The draft token of each of the target's tokens, int64 [V]; -1 for those that have none.

    d2t: int64 [draft V], the target's token of each draft token, no two the same. Made once, when
    a draft model is loaded.
    """
    inverse = torch.full((vocab,), -1, dtype=torch.int64, device=d2t.device)
    inverse[d2t] = torch.arange(len(d2t), device=d2t.device)
    return inverse


def scatter_vocabulary(probs: Tensor, seq_slots: Tensor, narrow: Tensor, inverse: Tensor) -> None:
    """Write rows over the draft vocabulary as rows over the target's; the rest of them is 0.

    probs: float32 [S + 1, K, V]; seq_slots: int64 [N]; narrow: float32 [N, K, draft V]; inverse:
    of `inverse_map`. Every token's probability is gathered, so each is written once.
    """
    wide = narrow[..., inverse.clamp(min=0)]
    probs[seq_slots] = torch.where(inverse >= 0, wide, 0)
