"""The exact drafter (semantics, sections 8a and 19): integer arithmetic, no rounding anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import mul

from draftproof.reference.vocabulary import (
    CONFIDENCE_LOGITS,
    ROW_COMPONENTS,
    Config,
    Drafter,
    Frames,
)

TAG_WEIGHTS = tuple(2 * j + 1 for j in range(ROW_COMPONENTS))
FRAME_CYCLE = 251
FRAME_WEIGHTS = tuple(range(1, FRAME_CYCLE + 1)) * 2


def tag(row: Sequence[int]) -> int:
    """A number that tells hidden rows apart: the sum of (2j + 1) * component j."""
    return sum(map(mul, TAG_WEIGHTS, row))


def tags_over_stages(rows: Frames, num_stages: int) -> list[int]:
    """Tags of rows at stage 0, summed over stages, which differ in the last component only."""
    more = TAG_WEIGHTS[-1] * sum(range(num_stages))
    single = zip(*[iter(rows.packed)] * ROW_COMPONENTS, strict=True)
    # The sum of `tag`, written out: calls, row by row, take twice the time.
    return [
        num_stages * (a + 3 * b + 5 * c + 7 * d + 9 * e + 11 * f) + more
        for a, b, c, d, e, f, _ in single
    ]


def window_sum(first_frame: int, tags: Sequence[int]) -> int:
    """Sum over visible frames f of ((f mod 251) + 1) * tag; `tags` are summed over stages."""
    first = first_frame % FRAME_CYCLE
    weights = FRAME_WEIGHTS * (1 + len(tags) // FRAME_CYCLE)
    return sum(map(mul, weights[first : first + len(tags)], tags))


def draft_block(
    total: int,
    start: int,
    bonus: int,
    length: int,
    vocab_size: int,
    draw: Callable[[int, int], int] | None = None,
) -> tuple[list[int], list[float]]:
    """Tokens and confidence logits of one request's block over a window of this sum.

    draw(k, argmax): the token that position k really draws; None: the argmax.
    """
    tokens, confidence = [], []
    token = bonus
    for k in range(length):
        confidence.append(CONFIDENCE_LOGITS[(total + 13 * token + k) % 64])
        token = (total + 31 * token + 7 * k + start) % vocab_size
        if draw is not None:
            token = draw(k, token)
        tokens.append(token)
    return tokens, confidence


def soft_probs(token: int, vocab_size: int) -> list[float]:
    """The distribution a sampled draft is drawn from when the argmax is `token` (section 19)."""
    probs = [0.0] * vocab_size
    for offset, mass in enumerate((0.5, 0.25, 0.125, 0.125)):
        probs[(token + offset) % vocab_size] += mass
    return probs


def scattered(probs: Sequence[float], d2t: Sequence[int] | None, vocab_size: int) -> list[float]:
    """Probabilities of draft tokens as probabilities of the target's; the rest is 0 (section 6)."""
    if d2t is None:
        return list(probs)
    wide = [0.0] * vocab_size
    for token, mass in zip(d2t, probs, strict=True):
        wide[token] = mass
    return wide


def make_drafter(config: Config) -> Drafter:
    """The drafter as a collaborator, for workers that have none of their own."""

    def draft(
        windows: Sequence[Sequence[Sequence[int]]], start: int, bonus: int
    ) -> tuple[list[int], list[float]]:
        tags = [sum(map(tag, rows)) for rows in zip(*windows, strict=True)]
        total = window_sum(start - len(tags) + 1, tags)
        return draft_block(total, start, bonus, config.max_draft_len, config.vocab_size)

    return draft
