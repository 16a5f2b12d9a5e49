"""Rejection sampling with given random numbers (section 6).

Probabilities are small binary fractions, so the float32 sums below are exact, whatever the order of
summation. A product with a uniform is rounded once (section 19).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from draftproof.gpu.acceptance import accepted_count
from draftproof.gpu.constants import one_hot, ramp


class Sampling(NamedTuple):
    """What a step with rejection sampling brings along, per generation row.

    target_probs: float32 [G, R, V]; proposed: int64 [G], drafts that a drafter proposed;
    greedy: bool [G]; accept_uniforms: float32 [G, r]. By how many drafts are accepted, 0 … r:
    recover_uniforms: float32 [G, R]; draft_uniforms: float32 [G, R, K].
    """

    target_probs: Tensor
    proposed: Tensor
    greedy: Tensor
    accept_uniforms: Tensor
    recover_uniforms: Tensor
    draft_uniforms: Tensor


def reject(
    drafts: Tensor, draft_probs: Tensor, sampling: Sampling, windows: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Test each draft x by u · p(x) < q(x), then draw one token where the prefix ends.

    drafts: int64 [G, r]; draft_probs: float32 [G, K, V], rows from `proposed` on may hold
    anything, NaN included; windows: int64 [G] or None, as in `strict`.
    Returns new_tokens int64 [G, R], 0 from n on, and n = accepted + 1, int64 [G].
    """
    ended = tested(drafts, draft_probs, sampling, windows)
    residual = (ended.q - ended.p).clamp(min=0)
    drawn = draw(residual, ended.uniform, ended.q)
    return with_ending(drafts, ended.accepted, drawn)


class Ended(NamedTuple):
    """Where the accepted prefixes end: accepted: int64 [G], 0 … r; q, p: float32 [G, V], uniform:
    float32 [G], there.
    """

    accepted: Tensor
    q: Tensor
    p: Tensor
    uniform: Tensor


def tested(
    drafts: Tensor, draft_probs: Tensor, sampling: Sampling, windows: Tensor | None
) -> Ended:
    """How many drafts pass, and what the token behind them is drawn from; as in `reject`."""
    q, r = sampling.target_probs, drafts.shape[1]
    p = tested_probs(drafts, draft_probs, sampling.proposed, windows)
    index = drafts.unsqueeze(2)
    p_draft = p[:, :r].gather(2, index).squeeze(2)
    q_draft = q[:, :r].gather(2, index).squeeze(2)
    accepted = accepted_count(sampling.accept_uniforms * p_draft < q_draft, windows)
    place = ramp(len(q), q.device), accepted
    return Ended(accepted, q[place], p[place], sampling.recover_uniforms[place])


def with_ending(drafts: Tensor, accepted: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
    """New tokens and their counts, as `reject` returns them; accepted, drawn: int64 [G]."""
    position, end = ramp(drafts.shape[1] + 1, drafts.device), accepted.unsqueeze(1)
    tail = torch.where(position == end, drawn.unsqueeze(1), 0)
    return torch.where(position < end, pad(drafts, (0, 1)), tail), accepted + 1


def tested_probs(
    drafts: Tensor, draft_probs: Tensor, proposed: Tensor, windows: Tensor | None
) -> Tensor:
    """The p rows that a step tests against, float32 [G, R, V].

    Shapes as in `reject`; proposed: int64 [G]. Placeholders get a one-hot row of their own
    token. From the window's last position on p is 0, so that `q - p` there is q itself.
    """
    r, vocab = drafts.shape[1], draft_probs.shape[2]
    position = ramp(r, drafts.device)
    real = (position < proposed.unsqueeze(1)).unsqueeze(2)
    rows = torch.where(real, draft_probs[:, :r], one_hot(drafts, vocab))
    if windows is not None:
        inside = (position + 1 < windows.unsqueeze(1)).unsqueeze(2)
        rows = torch.where(inside, rows, 0)
    return pad(rows, (0, 0, 0, 1))


def draw(mass: Tensor, uniform: Tensor, instead: Tensor) -> Tensor:
    """First index whose running sum exceeds u · total, int64 [N].

    mass, instead: float32 [N, V], not negative; uniform: float32 [N] in (0, 1]. Where no running
    sum does (u = 1): the last index with positive mass; where there is no mass at all: the last
    index with a positive `instead`. The index found has mass itself: where sums are exact that says
    nothing new, where they are rounded they need not grow with the index.
    """
    vocab = mass.shape[1]
    running = mass.cumsum(1)
    total = running[:, -1:]
    beyond = (running > uniform.unsqueeze(1) * total) & (mass > 0)
    index = torch.where(beyond, ramp(vocab, mass.device), vocab).amin(1)
    candidates = torch.where(total > 0, mass, instead) > 0
    last = (candidates * ramp(vocab, mass.device)).amax(1)
    return torch.where(index < vocab, index, last)
