"""Where decisions come from. Index 0 is always the simplest choice."""

from __future__ import annotations

import random
from typing import Protocol


class Choices(Protocol):
    """The whole interface of a driver."""

    def below(self, n: int) -> int:
        """Choose an index 0 .. n - 1."""


class Seeded:
    """Independent uniform choices from one seed, the same in every process."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def below(self, n: int) -> int:
        """Choose an index 0 .. n - 1."""
        return int(self._random() * n)


class Digits:
    """One choice cut into many small ones, so that an event costs its driver one draw.

    The first digits asked for are the lowest, so a small number means simple choices.
    """

    SPACE = 2**53
    """As many as a random float distinguishes."""

    def __init__(self, choices: Choices) -> None:
        self._rest = choices.below(self.SPACE)

    def below(self, n: int) -> int:
        """Choose an index 0 .. n - 1."""
        self._rest, digit = divmod(self._rest, n)
        return digit
