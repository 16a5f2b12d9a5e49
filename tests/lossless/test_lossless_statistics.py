"""The chi-square test: printed tables, the sums behind it, and cells that are too small."""

from __future__ import annotations

from math import isclose

import numpy as np
import pytest

from draftproof.fuzz.lossless.chi_square import LEAST_EXPECTED, fit, merged, survival

# Upper percentage points of chi-square, from the tables in the back of textbooks.
PRINTED = (
    (1, 0.05, 3.841), (1, 0.001, 10.828), (2, 0.05, 5.991), (3, 0.01, 11.345), (4, 0.001, 18.467),
    (5, 0.05, 11.070), (7, 0.001, 24.322), (10, 0.05, 18.307), (30, 0.01, 50.892),
    (63, 0.05, 82.529),
)  # fmt: skip


@pytest.mark.parametrize(("freedom", "p", "x"), PRINTED)
def test_the_printed_percentage_points(freedom: int, p: float, x: float) -> None:
    """If this fails, every p-value of this folder is wrong."""
    assert survival(x - 0.001, freedom) > p > survival(x + 0.001, freedom)


@pytest.mark.parametrize("freedom", [1, 2, 3, 8, 63])
def test_the_sum_is_the_integral_of_the_density(freedom: int) -> None:
    """If this fails, the finite sum leaves out a term; far in the tail too."""
    for x in (0.5, 5.0, 40.0, 150.0):
        steps = np.linspace(x, x + 250.0, 400_001)
        powers = (freedom / 2 - 1) * np.log(steps) - steps / 2
        width = steps[1] - steps[0]
        values = np.exp(powers)
        area = width * (values.sum() - (values[0] + values[-1]) / 2)
        whole = area / (2 ** (freedom / 2) * float(np.prod(_gamma_factors(freedom))))
        assert isclose(survival(x, freedom), whole, rel_tol=1e-4)


def _gamma_factors(freedom: int) -> list[float]:
    """Gamma(n / 2) as a product."""
    half = freedom / 2
    factors = []
    while half > 1:
        half -= 1
        factors.append(half)
    return [*factors, 1.0 if half == 1 else float(np.sqrt(np.pi))]


def test_edges() -> None:
    """If this fails, a setting without tokens, or with hopeless ones, is a crash."""
    assert survival(0.0, 3) == survival(-1.0, 3) == survival(7.0, 0) == 1.0
    assert survival(1e6, 1) == survival(1e6, 62) == 0.0
    assert fit([0, 0], [0.5, 0.5]).p == 1.0
    assert fit([9], [1.0]).p == 1.0


def test_an_impossible_outcome_is_no_accident() -> None:
    """If this fails, a token of probability 0 is hidden in a merged cell."""
    assert fit([500, 500, 1], [0.5, 0.5, 0.0]).p == 0.0
    assert fit([500, 500, 0], [0.5, 0.5, 0.0]).p == 1.0


def test_small_cells_are_merged() -> None:
    """If this fails, cells are tested whose counts are too small for the test."""
    cells = merged([(50, 50.0), (3, 4.0), (2, 4.0), (1, 4.0)])
    assert cells == [(50, 50.0), (6, 12.0)]
    assert merged([(50, 50.0), (1, 4.0)]) == [(51, 54.0)]
    assert all(wanted >= LEAST_EXPECTED for _, wanted in cells)


def test_a_statistic_by_hand() -> None:
    """If this fails, the statistic is not the sum of (count - expectation)^2 / expectation."""
    found = fit([60, 30, 10], [0.5, 0.25, 0.25])
    assert (found.statistic, found.freedom) == (100 / 50 + 25 / 25 + 225 / 25, 2)
    assert isclose(found.p, np.exp(-6))


def test_p_values_of_true_laws_are_uniform() -> None:
    """If this fails, the test finds fault with nothing, or finds nothing."""
    draws = np.random.default_rng(5).multinomial(2000, [0.4, 0.3, 0.2, 0.1], size=400)
    values = sorted(fit(row.tolist(), [0.4, 0.3, 0.2, 0.1]).p for row in draws)
    distance = max(abs((i + 0.5) / 400 - p) for i, p in enumerate(values))
    assert distance < 1.95 / 20  # Kolmogorov and Smirnov's bound at one in a thousand
