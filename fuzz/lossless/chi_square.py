"""Pearson's chi-square test of counts against a known law.

The survival function of a chi-square variable with n degrees of freedom is a finite sum, so no
library and no approximation is needed (Abramowitz and Stegun, 26.4.4 and 26.4.5). With h = x / 2:

    n even:  sum over i = 0 … n/2 - 1 of  h^i e^-h / i!
    n odd:   erfc(sqrt h) + sum over i = 0 … (n-3)/2 of  h^(i + 1/2) e^-h / Gamma(i + 3/2)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, exp, fsum, lgamma, log, sqrt

LEAST_EXPECTED = 10.0
"""Cells of a smaller expectation are merged."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How well counts agree with a law; p: probability of a statistic at least as large."""

    count: int
    statistic: float
    freedom: int
    p: float


def survival(x: float, freedom: int) -> float:
    """P(X >= x) for a chi-square variable X."""
    if x <= 0 or freedom == 0:
        return 1.0
    h, half = x / 2, freedom % 2 / 2
    powers = [i + half for i in range(freedom // 2)]
    terms = [exp(a * log(h) - h - lgamma(a + 1)) for a in powers]
    return min(1.0, fsum([erfc(sqrt(h)) if half else 0.0, *terms]))


def fit(counts: Sequence[int], law: Sequence[float]) -> Fit:
    """The test of counts per outcome against its probability. An impossible outcome has p = 0."""
    total = sum(counts)
    if not total:
        return Fit(0, 0.0, 0, 1.0)
    if any(count for count, mass in zip(counts, law, strict=True) if mass == 0):
        return Fit(total, float("inf"), len(law), 0.0)
    cells = merged([(count, total * mass) for count, mass in zip(counts, law, strict=True) if mass])
    statistic = fsum((count - wanted) ** 2 / wanted for count, wanted in cells)
    return Fit(total, statistic, len(cells) - 1, survival(statistic, len(cells) - 1))


def merged(cells: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Cells (count, expectation), the smallest ones put together until each is large enough."""
    rest = sorted(cells, key=lambda cell: cell[1], reverse=True)
    while len(rest) > 1 and rest[-1][1] < LEAST_EXPECTED:
        count, wanted = rest.pop()
        rest[-1] = rest[-1][0] + count, rest[-1][1] + wanted
        rest.sort(key=lambda cell: cell[1], reverse=True)
    return rest
