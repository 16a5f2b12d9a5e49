"""Section 14: the budgeted global top-k, against every allocation there is."""

from __future__ import annotations

import pytest
import torch
from confidence import rules
from confidence.cases import Batch, Padded, choices, padded
from confidence.sides import REFERENCE, TORCH, Side, both
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.gpu import confidence, ragged, scheduler
from draftproof.reference.scheduler import Limits, limits_of, verify_windows
from draftproof.reference.vocabulary import Config


@both
@given(case=choices)
def test_the_budget_buys_the_best_prefixes(side: Side, case: Batch) -> None:
    """If this fails, tokens are verified that are less likely to be kept than others left out."""
    rules.allocation(side, case)


@given(choices)
def test_both_sides_give_the_same_windows(case: Batch) -> None:
    """If this fails, given the same confidences, model and implementation part."""
    survivals = [side.survival(case.confidences, case.real) for side in (REFERENCE, TORCH)]
    assert survivals[0] == survivals[1]
    ours, theirs = (
        side.windows(survivals[0], case.budget, case.span, case.real) for side in (REFERENCE, TORCH)
    )
    assert ours == theirs


@both
@pytest.mark.parametrize(
    ("survivals", "budget", "expected"),
    [
        ([[0.9, 0.5, 0.25], [0.8, 0.5, 0.5]], 0, [2, 2]),
        ([[0.9, 0.5, 0.25], [0.8, 0.5, 0.5]], 1, [3, 2]),  # a tie: the first request
        ([[0.9, 0.5, 0.25], [0.8, 0.5, 0.5]], 2, [3, 3]),  # a tie: the earlier position
        ([[0.9, 0.5, 0.25], [0.8, 0.5, 0.5]], 3, [3, 4]),
        ([[0.9, 0.5, 0.25], [0.8, 0.5, 0.5]], 99, [4, 4]),
        ([[0.9, 0.5, 0.0], [1e-7, 1e-7, 1e-7]], 99, [3, 2]),  # the fewest are for nothing
        ([[1.0, 1.0, 1.0]], 1, [3]),
        ([], 5, []),
    ],
)
def test_worked_examples(
    side: Side, survivals: list[list[float]], budget: int, expected: list[int]
) -> None:
    """If this fails, the plainest batches get other windows than anybody would expect."""
    assert side.windows(survivals, budget, (1, 3), len(survivals)) == expected


@both
@given(budget=st.integers(0, 9), neutral=st.integers(0, 3))
def test_neutral_rows_come_first_and_stay_within_the_budget(
    side: Side, budget: int, neutral: int
) -> None:
    """If this fails, new requests take more of a step than was planned, or less than their turn."""
    rows = [[1.0] * 3] * neutral + [[0.75, 0.5, 0.25]] * 2
    windows = side.windows(rows, budget, (1, 3), len(rows))
    above = [window - 2 for window in windows]
    assert sum(above) == min(budget, 2 * len(rows))
    assert sum(above[:neutral]) == min(budget, 2 * neutral)


@both
def test_padding_rows_win_nothing_whatever_they_hold(side: Side) -> None:
    """If this fails, padding takes the budget of real requests."""
    survivals = side.survival([[0.5, 0.5], [1.0, 1.0], [1.0, 1.0]], 1)
    assert survivals == [[0.5, 0.25], [0.0, 0.0], [0.0, 0.0]]
    assert side.windows(survivals, 5, (1, 2), 1) == [3, 1, 1]


def test_a_snapshot_that_is_not_ready_means_a_uniform_step() -> None:
    """If this fails, a step waits for confidences, or is scheduled by what happens to lie there."""
    assert verify_windows(None, 3, Limits(1, 3), 2) is None


def test_limits_of_a_configuration() -> None:
    """If this fails, a ceiling of 0 means none at all instead of the whole block."""
    config = Config(5, 8, 1, 4, confidence_scheduling=True, min_verify_len=2)
    assert limits_of(config) == Limits(2, 5)
    assert scheduler.limits_of(config) == scheduler.Limits(2, 5)
    config = Config(5, 8, 1, 4, confidence_scheduling=True, max_verify_len=3)
    assert limits_of(config) == Limits(1, 3)
    assert scheduler.limits_of(config) == scheduler.Limits(1, 3)


def meta(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """A tensor with a shape and no values."""
    return torch.empty(shape, dtype=dtype, device="meta")


@settings(max_examples=20)
@given(padded)
def test_the_device_path_never_looks_at_a_value(step: Padded) -> None:
    """If this fails, a step waits for the device, or a captured graph freezes a shape.

    Tensors on the meta device have no values, so any look at one is an error.
    """
    slots, block, rows = 5, 3, len(step.step.windows) + step.padding
    logits = meta(slots + 2, block, dtype=torch.float32)
    kept = meta(3, slots + 2, block, dtype=torch.float32)
    history = confidence.History(kept, meta(3, slots + 2))
    confidence.remember(history, logits, meta(slots + 2), meta())
    old, stamps = confidence.recall(history, meta())
    sources = confidence.source_rows(old, stamps, meta(rows), meta())
    table = confidence.calibrated(logits, meta(block, dtype=torch.float32))
    survivals = confidence.survival(table[sources], meta())
    windows = scheduler.verify_windows(survivals, meta(), scheduler.Limits(1, block), meta())
    assert windows.shape == (rows,)
    filled = ragged.fill_bucket(windows, meta(), step.bucket, block + 1)
    packed = meta(step.bucket, 7)
    assert ragged.unpack(packed, filled, block + 1, 0).shape == (rows, block + 1, 7)
