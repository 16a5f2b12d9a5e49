"""Drawn chains, and what their confidences are turned into."""

from __future__ import annotations

from math import exp, log

import pytest
import torch

from draftproof.gpu import confidence as eager_confidence
from draftproof.gpu.draft_model.heads import (
    Drawing,
    markov_chain,
    markov_chain_sampled,
    pick,
)
from draftproof.reference import confidence
from draftproof.reference.numeric.heads import argmax
from numeric.implementations import tensor

# ---- drawn chains --------------------------------------------------------------------------------

GRID = 32
W1 = tensor([[0.0], [1.0], [2.0]])
W2 = tensor([[0.5], [0.0], [-0.5]])
LOGITS = tensor([[0.0, 1.0, 0.5], [1.0, 0.0, 0.0]])


def law(row: list[float]) -> list[float]:
    masses = [exp(x) for x in row]
    return [mass / sum(masses) for mass in masses]


def test_drawn_blocks_follow_the_product_of_their_laws() -> None:
    """If this fails, a drawn block is not what its probabilities say: a grid of uniforms must
    give every pair of tokens its share, but for one row and one column of the grid.
    """
    steps = (torch.arange(GRID) + 0.5) / GRID
    uniforms = torch.cartesian_prod(steps, steps)
    rows = len(uniforms)
    drawing = Drawing(torch.zeros(rows, dtype=torch.bool), torch.ones(rows), uniforms)
    logits, bonus = LOGITS.expand(rows, -1, -1), torch.full((rows,), 2)
    tokens, laws = markov_chain_sampled(logits, bonus, W1, W2, drawing)
    first = law([0.0 + 2 * 0.5, 1.0, 0.5 - 2 * 0.5])
    assert laws[0, 0].tolist() == pytest.approx(first, rel=1e-6)
    for a in range(3):
        second = law([1.0 + a * 0.5, 0.0, -a * 0.5])
        for b in range(3):
            share = ((tokens[:, 0] == a) & (tokens[:, 1] == b)).float().mean().item()
            assert share == pytest.approx(first[a] * second[b], abs=2 / GRID)


def test_greedy_rows_take_the_argmax_and_say_so() -> None:
    """If this fails, a greedy row is drawn, or presents a soft law for an argmax."""
    drawing = Drawing(
        torch.tensor([True, False]), torch.tensor([0.0, 1.0]), torch.full((2, 2), 1.0)
    )
    logits, bonus = LOGITS.expand(2, -1, -1), torch.tensor([0, 0])
    tokens, laws = markov_chain_sampled(logits, bonus, W1, W2, drawing)
    assert tokens[0].tolist() == markov_chain(logits, bonus, W1, W2)[0].tolist() == [1, 0]
    assert laws[0].tolist() == [[0, 1, 0], [1, 0, 0]]
    assert tokens[1].tolist() == [2, 2]  # u = 1: the last token with mass


def test_the_temperature_divides_the_logits() -> None:
    """If this fails, drafts are drawn at another temperature than the one they are tested at."""
    drawing = Drawing(torch.tensor([False]), torch.tensor([0.5]), torch.tensor([[0.79]]))
    token, found = pick(tensor([[log(2), 0.0]]), drawing, 0)
    assert found[0].tolist() == pytest.approx([0.8, 0.2])
    assert token.tolist() == [0]


def test_the_first_of_equal_logits_wins() -> None:
    """If this fails, ties are broken differently by model and reference."""
    tied = tensor([[[1.0, 3.0, 3.0]]])
    zero = torch.zeros(3, 1)
    assert markov_chain(tied, torch.tensor([0]), zero, zero).tolist() == [[1]]
    assert argmax([1.0, 3.0, 3.0]) == 1


# ---- confidence ----------------------------------------------------------------------------------


def test_each_position_has_its_own_temperature() -> None:
    """If this fails, temperatures multiply, or go by row: published values for a logit of 2
    (SGLang's test of `apply_sts`).
    """
    logits, temperatures = [[2.0, 2.0, 2.0]], [0.5, 1.0, 2.0]
    expected = pytest.approx([0.98201379, 0.88079708, 0.73105858], abs=1e-6)
    assert confidence.calibrated(logits, temperatures)[0] == expected
    found = eager_confidence.calibrated(tensor(logits), tensor(temperatures))
    assert found[0].tolist() == expected
