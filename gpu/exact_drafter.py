"""The exact drafter of sections 8a and 19, in 64-bit integers."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from draftproof.gpu.constants import one_hot, ramp
from draftproof.gpu.rejection import draw
from draftproof.reference.vocabulary import CONFIDENCE_LOGITS

DRAFT_MASSES = (0.5, 0.25, 0.125, 0.125)
"""Draft probabilities of the tokens t, t + 1, t + 2, t + 3, where 8a gives t (section 19)."""


def context_sum(rows: Tensor, frames: Tensor, visible: Tensor) -> Tensor:
    """The double sum over stages and visible frames, int64 [G].

    rows: [G, stages, W, D], windows in column order; frames: int64 [G, W]; visible: bool [G, W].
    Invisible rows are selected away: they may be NaN.
    """
    components = torch.where(visible[:, None, :, None], rows, 0).sum(1, dtype=torch.int64)
    odd = 2 * ramp(rows.shape[3], rows.device) + 1
    tags = (components * odd).sum(2)
    return (tags * (frames % 251 + 1)).sum(1)


def draft_argmax(total: Tensor, start: Tensor, bonus: Tensor, block: int, vocab: int) -> Tensor:
    """A block of drafts, each the formula's own token, int64 [G, K].

    total (of `context_sum`), start, bonus: int64 [G].
    """
    base = _base(total, start, block)
    tokens = [bonus]
    for k in range(block):
        tokens.append((base[:, k] + 31 * tokens[k]) % vocab)
    return torch.stack(tokens[1:], 1)


def draft_sampled(
    total: Tensor, start: Tensor, bonus: Tensor, greedy: Tensor, uniforms: Tensor, vocab: int
) -> tuple[Tensor, Tensor]:
    """A block of drafts drawn from the draft probabilities (section 19).

    total, start, bonus: int64 [G]; greedy: bool [G], rows that take the argmax; uniforms:
    float32 [G, K]. Returns tokens int64 [G, K] and their probabilities float32 [G, K, V].
    """
    block = uniforms.shape[1]
    base = _base(total, start, block)
    tokens, probs = [bonus], []
    for k in range(block):
        best = (base[:, k] + 31 * tokens[k]) % vocab
        p = torch.where(greedy.unsqueeze(1), one_hot(best, vocab), draft_law(best, vocab))
        tokens.append(torch.where(greedy, best, draw(p, uniforms[:, k], p)))
        probs.append(p)
    return torch.stack(tokens[1:], 1), torch.stack(probs, 1)


def fixed_argmax(law: Tensor, rows: int) -> Tensor:
    """A block for each row, the most likely tokens of a fixed law [K, V], int64 [rows, K]."""
    return law.argmax(1).expand(rows, -1)


def fixed_sampled(law: Tensor, greedy: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """A block of drafts drawn from a fixed law [K, V]; otherwise like `draft_sampled`."""
    best, vocab = fixed_argmax(law, len(greedy)), law.shape[1]
    probs = torch.where(greedy.view(-1, 1, 1), one_hot(best, vocab), law)
    rows = probs.view(-1, vocab)
    drawn = draw(rows, uniforms.reshape(-1), rows).view(best.shape)
    return torch.where(greedy.unsqueeze(1), best, drawn), probs


def draft_law(best: Tensor, vocab: int) -> Tensor:
    """Draft probabilities around the formula's token, float32 [G, V]; best: int64 [G].

    Masses that fall on the same token (V < 4) are added.
    """
    tokens = (best.unsqueeze(1) + ramp(len(DRAFT_MASSES), best.device)) % vocab
    masses = law_masses(best.device).expand(len(best), -1)
    return torch.zeros(len(best), vocab, device=best.device).scatter_add_(1, tokens, masses)


def confidence(total: Tensor, bonus: Tensor, drafts: Tensor) -> Tensor:
    """Confidence logits of a block, float32 [G, K]; drafts: int64 [G, K].

    Position k looks at the token it was given: the bonus, then the draft before it.
    """
    table = confidence_table(drafts.device)
    given = torch.cat([bonus.unsqueeze(1), drafts[:, :-1]], 1)
    positions = ramp(drafts.shape[1], drafts.device)
    return table[(total.unsqueeze(1) + 13 * given + positions) % len(table)]


def _base(total: Tensor, start: Tensor, block: int) -> Tensor:
    """All of the formula but the previous token, int64 [G, K]."""
    return (total + start).unsqueeze(1) + 7 * ramp(block, total.device)


@cache
def law_masses(device: torch.device) -> Tensor:
    """`DRAFT_MASSES`, float32 [4]."""
    return torch.tensor(DRAFT_MASSES, device=device)


@cache
def confidence_table(device: torch.device) -> Tensor:
    """`CONFIDENCE_LOGITS`, float32 [64]."""
    return torch.tensor(CONFIDENCE_LOGITS, device=device)
