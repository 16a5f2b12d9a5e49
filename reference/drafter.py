"""The exact drafter (semantics, sections 8a and 19): integer arithmetic, no rounding anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
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


def tag(row: Sequence[int]) -> int:
    """A number that tells hidden rows apart: the sum of (2j + 1) * component j."""
    return sum(map(mul, TAG_WEIGHTS, row))


def tags_over_stages(rows: Frames, num_stages: int) -> list[int]:
    """Each row's tag, summed over stages; rows of stage 0, and only the stage differs."""
    stages = TAG_WEIGHTS[-1] * sum(range(num_stages))
    return [num_stages * tag(row) + stages for row in rows]


@lru_cache(maxsize=FRAME_CYCLE * 64)
def _frame_weights(first_mod: int, count: int) -> tuple[int, ...]:
    return tuple((first_mod + i) % FRAME_CYCLE + 1 for i in range(count))


def window_sum(first_frame: int, tags: Sequence[int]) -> int:
    """Sum over visible frames f of ((f mod 251) + 1) * tag; `tags` are summed over stages."""
    return sum(map(mul, _frame_weights(first_frame % FRAME_CYCLE, len(tags)), tags))


class BlockDrafter:
    """One block of one request, token by token: the caller says which token each step drew."""

    __slots__ = ("k", "previous", "start", "total", "vocab_size")

    def __init__(self, total: int, start: int, bonus: int, vocab_size: int) -> None:
        self.total = total
        self.start = start
        self.previous = bonus
        self.vocab_size = vocab_size
        self.k = 0

    def argmax(self) -> int:
        """The most likely token at position k."""
        return (self.total + 31 * self.previous + 7 * self.k + self.start) % self.vocab_size

    def confidence(self) -> float:
        """The confidence logit of position k."""
        return CONFIDENCE_LOGITS[(self.total + 13 * self.previous + self.k) % 64]

    def advance(self, token: int) -> None:
        """Position k drew `token`."""
        self.previous = token
        self.k += 1


def argmax_block(block: BlockDrafter, length: int) -> Iterator[tuple[int, float]]:
    """Yield (token, confidence logit) for each position of a greedy block."""
    for _ in range(length):
        token, confidence = block.argmax(), block.confidence()
        yield token, confidence
        block.advance(token)


def soft_probs(token: int, vocab_size: int) -> list[float]:
    """The distribution a sampled draft is drawn from when the argmax is `token` (section 19)."""
    probs = [0.0] * vocab_size
    for offset, mass in enumerate((0.5, 0.25, 0.125, 0.125)):
        probs[(token + offset) % vocab_size] += mass
    return probs


def make_drafter(config: Config) -> Drafter:
    """The drafter as a collaborator, for workers that have none of their own."""

    def draft(
        windows: Sequence[Sequence[Sequence[int]]], start: int, bonus: int
    ) -> tuple[list[int], list[float]]:
        tags = [sum(map(tag, rows)) for rows in zip(*windows, strict=True)]
        total = window_sum(start - len(tags) + 1, tags)
        block = BlockDrafter(total, start, bonus, config.vocab_size)
        pairs = list(argmax_block(block, config.max_draft_len))
        return [token for token, _ in pairs], [confidence for _, confidence in pairs]

    return draft
