"""What drafts are drawn from, and a narrower vocabulary than the target's (section 6)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from draftproof.reference.vocabulary import Config, DraftLaw


class Drafting(NamedTuple):
    """The draft vocabulary, and what is drawn from it; made once, with a worker.

    vocab: draft tokens; d2t: int64 [vocab], the target's token of each, and inverse: int64 [V], of
    `inverse_map`; both None if the vocabularies are one. law: float32 [K, vocab], p of each
    position whatever came before; None: the exact drafter's own (section 19).
    """

    vocab: int
    d2t: Tensor | None = None
    inverse: Tensor | None = None
    law: Tensor | None = None

    def widened(self, tokens: Tensor) -> Tensor:
        """The target's tokens of draft tokens."""
        return tokens if self.d2t is None else self.d2t[tokens]


def drafting(config: Config, law: DraftLaw | None, device: torch.device) -> Drafting:
    """What the configuration and the harness say."""
    vocab, d2t, inverse = config.vocab_size, None, None
    if config.d2t is not None:
        d2t = torch.tensor(config.d2t, device=device)
        vocab, inverse = len(d2t), inverse_map(d2t, vocab)
    if law is None:
        return Drafting(vocab, d2t, inverse)
    rows = torch.tensor([list(row) for row in law], dtype=torch.float32, device=device)
    assert rows.shape == (config.max_draft_len, vocab), f"a draft law of shape {list(rows.shape)}"
    return Drafting(vocab, d2t, inverse, rows)


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
