"""How much of a block the target keeps (semantics, section 6)."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.reference.confidence import single

Probs = Sequence[float]


def strict(drafts: Sequence[int], target: Sequence[int]) -> list[int]:
    """New tokens of one row: the longest prefix of drafts that the target repeats, and its next.

    target: the target's token per verified row, anchor row first, so at most len(drafts) + 1;
    a shorter one is a verify window, and drafts beyond it never match.
    """
    accepted = 0
    while accepted < len(target) - 1 and drafts[accepted] == target[accepted]:
        accepted += 1
    return [*drafts[:accepted], target[accepted]]


def rejection(
    drafts: Sequence[int],
    draft_probs: Sequence[Probs],
    target_probs: Sequence[Probs],
    accept_uniforms: Sequence[float],
    recover_uniform: float,
) -> list[int]:
    """New tokens of one row under rejection sampling with given numbers.

    target_probs: q per verified row, so one more than the drafts tested; draft_probs: p per draft,
    the distribution it was really drawn from (one-hot for argmax and placeholders);
    uniforms in (0, 1].
    """
    n = accepted(drafts, draft_probs, target_probs, accept_uniforms)
    return [*drafts[:n], ending(n, draft_probs, target_probs, recover_uniform)]


def accepted(
    drafts: Sequence[int],
    draft_probs: Sequence[Probs],
    target_probs: Sequence[Probs],
    accept_uniforms: Sequence[float],
) -> int:
    """How many drafts pass u * p < q before the first that does not; the product is a float32."""
    tested = len(target_probs) - 1
    for i in range(tested):
        token, p, q = drafts[i], draft_probs[i], target_probs[i]
        if not single(accept_uniforms[i] * p[token]) < q[token]:
            return i
    return tested


def ending(
    accepted: int, draft_probs: Sequence[Probs], target_probs: Sequence[Probs], uniform: float
) -> int:
    """The token behind the accepted drafts: from q alone if all were, else from what p left."""
    q = target_probs[accepted]
    if accepted == len(target_probs) - 1:
        return sample(q, uniform)
    return recover(q, draft_probs[accepted], uniform)


def recover(q: Probs, p: Probs, uniform: float) -> int:
    """A token from max(q - p, 0); without any such mass the last token with q > 0."""
    residual = [max(a - b, 0.0) for a, b in zip(q, p, strict=True)]
    if not any(residual):
        return max(i for i, a in enumerate(q) if a > 0)
    return sample(residual, uniform)


def sample(weights: Probs, uniform: float) -> int:
    """The first index whose running sum exceeds uniform * total, else the last with mass.

    The product is a float32; sums of multiples of 2^-10 are exact.
    """
    bound = single(uniform * sum(weights))
    running = 0.0
    for i, weight in enumerate(weights):
        running += weight
        if running > bound:
            return i
    return max(i for i, weight in enumerate(weights) if weight > 0)


def one_hot(token: int, vocab_size: int) -> list[float]:
    """All mass on one token."""
    probs = [0.0] * vocab_size
    probs[token] = 1.0
    return probs
