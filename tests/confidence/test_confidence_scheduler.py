"""Section 14: Algorithm 1 and the choice of a budget, on tables that a hand can compute."""

from __future__ import annotations

import pytest
import torch
from confidence import rules
from confidence.cases import Batch, exactly_planned, planned
from confidence.sides import REFERENCE, TORCH, Side, Table, both
from hypothesis import given

from draftproof.gpu.scheduler import rate_at, table_of_costs
from draftproof.reference.scheduler import Limits, best_budget, rate_of_costs, rate_of_table

Planned = tuple[Batch, Table]

APPENDIX_A = [(1, 1.0), (2, 0.5), (3, 0.45)]
"""The jagged capacity of the paper's counter-example: values 1, 0.9, 1.134 if c = 0.8, 0.9."""


@both
@given(case=planned | exactly_planned)
def test_algorithm_1_admits_as_long_as_it_gains(side: Side, case: Planned) -> None:
    """If this fails, the scheduler verifies tokens that cost more than they bring, or too few."""
    rules.early_stopping(side, case)


@both
@given(case=planned | exactly_planned)
def test_a_step_stops_at_the_first_draft_that_does_not_pay(side: Side, case: Planned) -> None:
    """If this fails, a planned step verifies drafts that cost more than they bring, or too few."""
    rules.stopping_above_the_fewest(side, case)


@both
@given(case=exactly_planned)
def test_the_unrestricted_search_finds_the_best_of_all_allocations(
    side: Side, case: Planned
) -> None:
    """If this fails, a budget is chosen although another one yields more tokens per second."""
    rules.unrestricted_search(side, case)


@given(planned | exactly_planned)
def test_both_sides_plan_alike(case: Planned) -> None:
    """If this fails, model and implementation choose different graphs for one step."""
    batch, table = case
    survivals = REFERENCE.survival(batch.confidences, len(batch.confidences))
    ours, theirs = (side.prefix_schedule(survivals, table) for side in (REFERENCE, TORCH))
    assert ours == theirs
    ours_best, theirs_best = (
        side.best_budget(survivals, table, batch.span) for side in (REFERENCE, TORCH)
    )
    assert ours_best == theirs_best


@both
@pytest.mark.parametrize(
    ("survivals", "table", "lengths"),
    [
        # Two requests: values 4, 5.5, 6, then 6.25 * 2 or less.
        ([[0.75, 0.25], [0.5, 0.125]], [(2, 2.0), (3, 2.0), (4, 2.0), (6, 1.0)], [1, 1]),
        # A flat table: tokens are free, so all that may survive are taken.
        ([[0.75, 0.25], [0.5, 0.0]], [(6, 1.0)], [2, 1]),
        # Equality is not enough: 1 * 1.5 = 1.5 * 1.
        ([[0.5, 0.5]], [(1, 1.5), (2, 1.0), (3, 1.0)], [0]),
        # A tie is settled by the position, then by the request.
        ([[0.5, 0.5], [0.5, 0.5]], [(3, 2.0), (6, 0.5)], [1, 0]),
        ([[0.5, 0.5], [1.0, 0.5]], [(4, 2.0), (6, 0.5)], [1, 1]),
        # The second step down is never seen, for better or worse.
        ([[0.8, 0.72]], APPENDIX_A, [0]),
        # A step that was not measured cannot run.
        ([[1.0, 1.0, 1.0]], [(1, 1.0), (2, 1.0)], [1]),
        ([[1.0], [1.0], [1.0]], [(2, 1.0)], [0, 0, 0]),
        ([], [(4, 1.0)], []),
    ],
)
def test_algorithm_1_by_hand(
    side: Side, survivals: list[list[float]], table: Table, lengths: list[int]
) -> None:
    """If this fails, Algorithm 1 of the paper is not what runs."""
    assert side.prefix_schedule(survivals, table) == lengths


@both
@pytest.mark.parametrize(
    ("survivals", "table", "span", "budget"),
    [
        ([[0.8, 0.72]], APPENDIX_A, (0, 2), 2),
        ([[0.8, 0.0]], APPENDIX_A, (0, 2), 0),
        ([[0.8, 0.72]], APPENDIX_A, (0, 1), 0),
        # One draft each is given: 2 + 1.5 tokens at 4, and 0.5 more for one of two more tokens.
        ([[0.75, 0.5], [0.75, 0.25]], [(4, 8.0), (5, 7.25), (6, 6.0)], (1, 2), 1),
        ([[0.75, 0.5], [0.75, 0.25]], [(4, 8.0), (5, 7.0), (6, 6.0)], (1, 2), 0),
        # Equal values: the smaller budget.
        ([[0.5, 0.5]], [(1, 1.5), (2, 1.0), (3, 0.75)], (0, 2), 0),
        ([], [(4, 1.0)], (1, 2), 0),
    ],
)
def test_the_search_by_hand(
    side: Side, survivals: list[list[float]], table: Table, span: tuple[int, int], budget: int
) -> None:
    """If this fails, jagged steps of the throughput are handled worse than they could be."""
    assert side.best_budget(survivals, table, span) == budget


def test_rates_are_those_of_the_next_measured_step() -> None:
    """If this fails, a step is planned at the speed of one that it does not fit."""
    rate = rate_of_table([(2, 3.0), (4, 1.0)])
    assert [rate(tokens) for tokens in (1, 2, 3, 4, 5)] == [3.0, 3.0, 1.0, 1.0, 0.0]


def test_a_step_cost_table_is_its_reciprocal() -> None:
    """If this fails, costs are taken for rates, and the slowest step is preferred."""
    rate = rate_of_costs([(2, 0.25), (4, 0.5)])
    assert [rate(2), rate(3), rate(5)] == [4.0, 2.0, 0.0]
    found = rate_at(table_of_costs([(2, 0.25), (4, 0.5)]), torch.tensor([2, 3, 5]))
    assert found.tolist() == [4.0, 2.0, 0.0]
    assert best_budget([[1.0, 1.0, 1.0]], rate_of_costs([(2, 1.0), (4, 4.0)]), Limits(1, 3)) == 0
    assert best_budget([[1.0, 1.0, 1.0]], rate_of_costs([(2, 1.0), (4, 1.5)]), Limits(1, 3)) == 2
