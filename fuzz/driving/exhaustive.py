"""Every sequence of choices in turn, behind the interface that a random driver has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from draftproof.sim.choices import Choices

Made = TypeVar("Made")


def every(choose: Callable[[Choices], Made]) -> Iterator[Made]:
    """What a function makes of each sequence of choices that it can ask for, the simplest first.

    Like the digits of an odometer: the last choice moves on first. The function must ask for the
    same after the same answers; raises ValueError where it does not.
    """
    digits: list[_Digit] = []
    while True:
        yield choose(_Odometer(digits))
        while digits and digits[-1].index == digits[-1].of - 1:
            digits.pop()
        if not digits:
            return
        digits[-1].index += 1


class _Digit:
    def __init__(self, of: int) -> None:
        self.index, self.of = 0, of


class _Odometer:
    """Answers what its digits show, and has a new one at 0 for each further choice."""

    def __init__(self, digits: list[_Digit]) -> None:
        self._digits, self._asked = digits, 0

    def below(self, n: int) -> int:
        """Choose an index 0 .. n - 1."""
        if n < 1:
            raise ValueError(f"nothing to choose from: below({n})")
        if self._asked == len(self._digits):
            self._digits.append(_Digit(n))
        digit = self._digits[self._asked]
        if digit.of != n:
            raise ValueError(f"choice {self._asked} was below {digit.of} and is now below {n}")
        self._asked += 1
        return digit.index
