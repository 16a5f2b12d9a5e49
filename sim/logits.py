"""The simulated target's logits, for workers that choose its tokens themselves (section 19)."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.reference.vocabulary import NO_PENALTIES, Penalties
from draftproof.sim.target import mix

PENALTIES = (
    NO_PENALTIES,
    Penalties(repetition=2.0),
    Penalties(presence=3),
    Penalties(frequency=1),
    Penalties(repetition=0.5, presence=-1, frequency=2),
)
"""What a request can ask for, the simplest first."""

LEADS = (1, 3, 9)
"""By how much the scripted token leads: a penalty may overtake the first, none the last soon."""

PLAIN, NOISY = 1000, 2000
"""Purposes of the order behind the scripted token: of a greedy row, and with a draw's noise."""


def logits(
    incarnation: int, position: int, scripted: int, greedy: bool, vocab_size: int
) -> list[float]:
    """One row: whole numbers about 0, no two the same, the largest that of the scripted token.

    position: of the token that the row reads. A sampled row comes with the noise of its draw, which
    orders the rest in another way.
    """
    purpose = PLAIN if greedy else NOISY
    order = sorted(range(vocab_size), key=lambda t: (mix(incarnation, position, purpose + t), t))
    row = [0.0] * vocab_size
    for rank, token in enumerate(order):
        row[token] = float(rank - vocab_size // 2)
    row[scripted] = float(vocab_size - vocab_size // 2 + _lead(incarnation, position))
    return row


def _lead(incarnation: int, position: int) -> int:
    return LEADS[mix(incarnation, position, 6) % len(LEADS)]


def packed(
    rows: Sequence[tuple[int, int, bool]], answers: Sequence[Sequence[int]], vocab_size: int
) -> list[float]:
    """All logit rows. Per row of the batch: incarnation, position of its first logit row, greedy;
    and the scripted token of each of its logit rows.
    """
    return [
        value
        for (incarnation, position, greedy), script in zip(rows, answers, strict=True)
        for i, token in enumerate(script)
        for value in logits(incarnation, position + i, token, greedy, vocab_size)
    ]
