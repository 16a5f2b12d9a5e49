"""Things that are compared take turns."""

from __future__ import annotations

from collections.abc import Callable

Rate = Callable[[int], float]
"""So many of something per second, measured over a repetition of that number."""


def in_turns(ways: dict[str, Rate], repetitions: int) -> dict[str, list[float]]:
    """A B C A B C ..., so that whatever else the machine does meets all of them."""
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(repetitions):
        for way, rate in ways.items():
            rates[way].append(rate(number))
    return rates
