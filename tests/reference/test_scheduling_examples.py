"""Section 14 by hand: survivals, whose confidences count, budgets, packed rows, buckets."""

from math import inf, nan

import pytest

from draftproof.reference import confidence, ragged, scheduler
from draftproof.reference.ragged import Load
from draftproof.reference.scheduler import Limits
from draftproof.reference.vocabulary import BatchError, GenerationRow

HALVES = [[0.5, 0.25, 0.125], [0.75, 0.25, 0.0]]
"""Survivals of two requests, K = 3, exact in float32."""


def test_a_row_is_read_only_from_a_slot_whose_drafts_they_are() -> None:
    """If this fails, confidences of other drafts, or of nobody, decide on these."""
    logits = [[1.0], [2.0], [nan], [-inf], [9.0], [30.0]]  # 4 slots, scratch, neutral
    stamps = [7, 6, 7, 7, 7, 7]
    slots = [0, 1, 2, 3, 4]
    assert confidence.source_rows(logits, stamps, slots, 7) == [0, 5, 5, 5, 5]


def test_a_snapshot_is_read_by_who_held_the_slot_then() -> None:
    """If this fails, a request inherits the confidences of the one before it."""
    owners = {10: (1, 4), 20: (0, 5)}
    rows = [GenerationRow(10, 4, 0, 0), GenerationRow(20, 6, 0, 0), GenerationRow(30, 1, 0, 0)]
    assert confidence.owned_slots(owners, rows, 2) == [1, 2, 2]


def test_confidences_are_sigmoids_at_their_temperatures() -> None:
    """If this fails, a temperature is applied at another position, or the wrong way round."""
    assert confidence.calibrated([[0.0, 1000.0, -1000.0]]) == [[0.5, 1.0, 0.0]]
    hot = confidence.calibrated([[2.0, 2.0]], [1.0, 2.0])
    assert hot == [[confidence.single(0.8807970779778823), confidence.single(0.7310585786300049)]]
    assert confidence.calibrated([[-1.0]]) == [[confidence.single(0.2689414213699951)]]


def test_survivals_are_running_products_of_requests_and_zero_of_others() -> None:
    """If this fails, a late draft is worth more than the drafts it stands on."""
    rows = [[0.5, 0.5, 1.0], [0.75, 0.0, 0.5], [0.5, 0.5, 0.5]]
    assert confidence.survival(rows, 2) == [[0.5, 0.25, 0.25], [0.75, 0.0, 0.0], [0.0] * 3]


@pytest.mark.parametrize(
    ("budget", "fewest", "most", "expected"),
    [
        (0, 0, 3, [0, 0]),
        (1, 0, 3, [0, 1]),
        (2, 0, 3, [1, 1]),
        (3, 0, 3, [2, 1]),  # a tie: the first request
        (4, 0, 3, [2, 2]),
        (9, 0, 3, [3, 2]),  # the last one survives with probability 0
        (9, 0, 2, [2, 2]),
        (1, 1, 3, [2, 1]),
    ],
)
def test_a_budget_buys_the_best(budget: int, fewest: int, most: int, expected: list[int]) -> None:
    """If this fails, tokens are verified that are less likely to be kept than others left out."""
    limits = Limits(fewest, most)
    assert scheduler.allocate(HALVES, budget, limits) == expected
    windows = scheduler.verify_windows([*HALVES, [1.0, 1.0, 1.0]], budget, limits, 2)
    assert windows == [*[length + 1 for length in expected], 1]
    assert scheduler.verify_windows(None, budget, limits, 2) is None


def test_what_hardly_survives_gets_nothing() -> None:
    """If this fails, budget goes to drafts that will not be kept."""
    least = confidence.single(1e-6)
    below = confidence.single(9.9e-7)
    assert scheduler.allocate([[least], [below]], 2, Limits(0, 1)) == [1, 0]


def test_a_step_runs_at_the_rate_of_the_next_measured_size() -> None:
    """If this fails, a step is thought to be faster than it is."""
    rate = scheduler.rate_of_table([(2, 8.0), (4, 4.0)])
    assert [rate(tokens) for tokens in (1, 2, 3, 4, 5)] == [8.0, 8.0, 4.0, 4.0, 0.0]
    rate = scheduler.rate_of_costs([(2, 0.125), (4, 0.25)])
    assert [rate(tokens) for tokens in (1, 2, 3, 4, 5)] == [8.0, 8.0, 4.0, 4.0, 0.0]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([(9, 1.0)], [3, 2]),  # as much as there is, but what survives with probability 0
        ([(7, 1.0), (9, 2.0)], [3, 2]),  # even if a step with it would be faster
        ([(2, 9.0), (9, 1.0)], [0, 0]),  # 2 tokens: 18 a second, 3: 2.75
        ([(3, 8.0), (9, 1.0)], [0, 1]),  # 3: 22, 4: 3.25
        ([(3, 4.0), (4, 3.0), (9, 3.0)], [0, 1]),  # 3: 11, 4: 9.75, never mind that 6: 11.25
        ([], [0, 0]),
    ],
)
def test_algorithm_1_stops_at_the_first_fall(
    table: list[tuple[int, float]], expected: list[int]
) -> None:
    """If this fails, the scheduler is not that of the paper, or looks at later tokens."""
    assert scheduler.prefix_schedule(HALVES, scheduler.rate_of_table(table)) == expected
    assert scheduler.prefix_schedule([], scheduler.rate_of_table(table)) == []


@pytest.mark.parametrize(
    ("table", "fewest", "expected"),
    [
        ([(9, 1.0)], 0, 5),
        ([(2, 9.0), (9, 1.0)], 0, 0),
        ([(3, 4.0), (4, 3.0), (9, 3.0)], 0, 5),  # 3: 11, 7: 3 * 3.875 = 11.625
        ([(3, 8.0), (9, 1.0)], 0, 1),
        ([(4, 8.0), (9, 1.0)], 1, 0),  # the fewest are there before the first choice
        ([(5, 8.0), (9, 1.0)], 1, 1),
        ([(4, 8.0), (5, 7.4), (9, 1.0)], 1, 0),  # 4: 26, 5: 25.9
        ([], 0, 0),
    ],
)
def test_the_best_budget_looks_past_a_fall(
    table: list[tuple[int, float]], fewest: int, expected: int
) -> None:
    """If this fails, a budget is chosen that brings fewer tokens per second than another."""
    rate = scheduler.rate_of_table(table)
    assert scheduler.best_budget(HALVES, rate, Limits(fewest, 3)) == expected


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([(4, 8.0), (5, 7.4), (9, 1.0)], 0),  # 4: 3.25 * 8 = 26, 5: 25.9
        ([(4, 8.0), (5, 7.6), (6, 7.1), (7, 6.9), (9, 1.0)], 3),  # 26, 26.6, 26.625, 26.7375
        ([(4, 8.0), (5, 7.6), (6, 7.1), (7, 6.8), (9, 1.0)], 2),  # 26, 26.6, 26.625, 26.35
    ],
)
def test_algorithm_1_above_the_fewest(table: list[tuple[int, float]], expected: int) -> None:
    """If this fails, a planned step verifies more or fewer drafts than pay."""
    rate = scheduler.rate_of_table(table)
    assert scheduler.stopped_early(HALVES, rate, Limits(1, 3)) == expected


def test_rows_are_packed_one_behind_the_other_and_unpacked() -> None:
    """If this fails, a row of one request is read as that of its neighbour."""
    assert ragged.qo_indptr([2, 1, 3]) == [0, 2, 3, 6]
    packed = ragged.pack([[1, 2, 3], [4, 5, 6], [7, 8, 9]], [2, 1, 3])
    assert packed == [1, 2, 4, 7, 8, 9]
    assert ragged.unpack(packed, [2, 1, 3], 3, 0) == [[1, 2, 0], [4, 0, 0], [7, 8, 9]]


@pytest.mark.parametrize(
    ("windows", "padding", "bucket", "expected"),
    [
        ([2, 1], 0, 3, [2, 1]),
        ([2, 1], 0, 4, [3, 1]),
        ([2, 1], 0, 5, [3, 2]),
        ([3, 1], 0, 6, [3, 3]),
        ([2, 1], 1, 4, [2, 1, 1]),
        ([3, 3], 2, 9, [3, 3, 2, 1]),
        ([3, 3], 1, 9, [3, 3, 3]),
        ([], 2, 3, [2, 1]),
    ],
)
def test_a_bucket_is_filled_round_and_round(
    windows: list[int], padding: int, bucket: int, expected: list[int]
) -> None:
    """If this fails, a step is padded in another way than the worker pads it, or not exactly."""
    assert ragged.fill_bucket(windows, padding, bucket, 3) == expected


@pytest.mark.parametrize(("padding", "bucket"), [(0, 2), (0, 7), (1, 3), (1, 10)])
def test_a_bucket_that_cannot_be_hit_is_refused(padding: int, bucket: int) -> None:
    """If this fails, rows get windows that do not exist."""
    with pytest.raises(BatchError, match="cannot hold"):
        ragged.fill_bucket([2, 1], padding, bucket, 3)


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        ([Load(2, 3)], (2, 3)),
        ([Load(2, 4)], (2, 4)),
        ([Load(2, 5)], (2, 6)),
        ([Load(1, 3)], (1, 3)),
        ([Load(1, 1)], (1, 3)),
        ([Load(2, 6), Load(1, 1)], (2, 6)),
        ([Load(2, 3), Load(3, 3)], (4, 6)),
        ([Load(2, 7)], (4, 12)),
        ([Load(4, 11)], (4, 12)),
        ([Load(4, 12)], (4, 12)),
        ([Load(2, 10)], (4, 12)),
        ([Load(2, 11)], None),
        ([Load(4, 13)], None),
        ([Load(5, 5)], None),
    ],
)
def test_ranks_agree_on_the_smallest_graph_that_fits_all(
    loads: list[Load], expected: tuple[int, int] | None
) -> None:
    """If this fails, ranks replay different graphs, or one into which a rank does not fit."""
    assert ragged.agreed_shape(loads, (1, 2, 4), (3, 4, 6, 12), 3) == expected
