"""Words about how the target's token is chosen; `reference/vocabulary.py` hands them on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Penalties:
    """What tokens lose that a request has seen already (section 19), so that float32 is exact.

    repetition: a power of two, for tokens of prompt and output: positive logits are divided by it,
    the others multiplied. Whole numbers, for tokens of the output alone: presence is taken off
    once, frequency as often as the token is there.
    """

    repetition: float = 1.0
    presence: int = 0
    frequency: int = 0


NO_PENALTIES = Penalties()


class Matcher(Protocol):
    """Where one request stands in its grammar: behind `depth` tokens."""

    @property
    def depth(self) -> int:
        """How many tokens were taken in and not taken back."""

    def allowed(self) -> bytes:
        """[V], 1 for a token that may come next, else 0; never all 0 (section 19)."""

    def advance(self, token: int) -> bool:
        """Take a token in. False, changing nothing, if it is not allowed."""

    def rollback(self, count: int) -> None:
        """Take the last tokens back, at most `depth`."""


Guide = Callable[[int], Matcher]
"""Makes a matcher that stands at the beginning of a grammar."""
