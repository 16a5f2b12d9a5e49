"""Mistakes that people make in section 14, planted: the rules turn red for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log
from typing import Any

import pytest
from confidence import rules
from confidence.cases import (
    batches,
    broken,
    choices,
    exactly_planned,
    padded,
    planned,
    ragged,
    ranks,
    stored,
)
from confidence.mistakes import MISTAKES
from confidence.sides import REFERENCE, TORCH, Side
from hypothesis import strategies as st

from draftproof.reference.calibration import Outcome
from draftproof.reference.confidence import calibrated, sigmoid, single, survival

RULES: dict[Callable[[Side, Any], None], st.SearchStrategy[Any]] = {
    rules.neutral_rows: stored(),
    rules.no_spreading: stored(),
    rules.float32_products: batches(),
    rules.allocation: choices,
    rules.early_stopping: planned | exactly_planned,
    rules.stopping_above_the_fewest: planned,
    rules.unrestricted_search: exactly_planned,
    rules.layout: ragged(),
    rules.padding: padded,
    rules.agreement: ranks(),
}


@pytest.mark.parametrize(
    ("mistake", "where", "rule"),
    MISTAKES,
    ids=[f"{mistake.__name__}-{rule.__name__}" for mistake, _, rule in MISTAKES],
)
def test_a_planted_mistake_is_found(
    mistake: Callable[..., Any], where: str, rule: Callable[[Side, Any], None]
) -> None:
    """If this fails, a rule of section 14 is green whatever anybody implements."""
    planted: dict[str, Any] = {where: mistake}
    assert broken(rule, replace(REFERENCE, **planted), RULES[rule])


def calibrated_after_multiplying(
    outcomes: Sequence[Outcome], temperatures: Sequence[float]
) -> list[list[float]]:
    """The survivals are multiplied first, and then brought to a temperature."""
    raw = survival(calibrated([outcome.logits for outcome in outcomes]), len(outcomes))
    return [
        [
            single(sigmoid(log(product / (1 - product)) / t)) if product < 1 else 1.0
            for product, t in zip(row, temperatures, strict=True)
        ]
        for row in raw
    ]


def test_survivals_multiplied_before_the_calibration_are_found() -> None:
    """If this fails, nobody notices that a temperature is applied to a product.

    0.5 at T = 1 and again at T = 2 is one half twice: a quarter. The other way round the product
    1/4 is softened to 1 / (1 + sqrt(3)).
    """
    blocks, temperatures = [Outcome((0.0, 0.0), 2, 2)], [1.0, 2.0]
    for side in (REFERENCE, TORCH):
        rows = side.calibrated([block.logits for block in blocks], temperatures)
        assert side.survival(rows, 1) == [[0.5, 0.25]]
    (mistaken,) = calibrated_after_multiplying(blocks, temperatures)
    assert mistaken == [0.5, pytest.approx(1 / (1 + 3**0.5), abs=1e-6)]
