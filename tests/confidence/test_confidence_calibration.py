"""Section 14: sequential temperature scaling, and the error that it makes small."""

from __future__ import annotations

from math import exp
from random import Random

import pytest
import torch
from confidence.sides import REFERENCE, Side, both
from hypothesis import given
from hypothesis import strategies as st

from draftproof.gpu import calibration as torch_calibration
from draftproof.reference.calibration import BINS, GRID, Outcome, calibration_error, fit
from draftproof.reference.confidence import calibrated, survival

NAN = float("nan")


@pytest.mark.parametrize(
    ("predictions", "outcomes", "error"),
    [
        ([], [], 0.0),
        ([1.0, 1.0], [True, True], 0.0),
        ([0.9, 0.9], [True, False], 0.4),  # one bin: |1.8 - 1| / 2
        ([0.25, 0.75], [False, True], 0.25),  # two bins: (0.25 + 0.25) / 2
        ([0.51, 0.54], [False, True], 0.025),  # one bin: |1.05 - 1| / 2
        ([0.54, 0.56], [False, True], 0.49),  # two: (0.54 + 0.44) / 2
        ([0.0, 1.0], [True, False], 1.0),
    ],
)
def test_the_error_by_hand(predictions: list[float], outcomes: list[bool], error: float) -> None:
    """If this fails, the expected calibration error is not what the text defines."""
    assert calibration_error(predictions, outcomes) == pytest.approx(error, abs=1e-12)
    column = torch.tensor(predictions, dtype=torch.float64).reshape(-1, 1)
    found = torch_calibration.calibration_errors(column, torch.tensor(outcomes, dtype=torch.bool))
    assert found.tolist() == [pytest.approx(error, abs=1e-12)]


def test_the_two_grids_are_one() -> None:
    """If this fails, the sides choose among different temperatures."""
    assert torch_calibration.grid().tolist() == list(GRID)
    assert torch_calibration.BINS == BINS
    assert 1.0 in GRID


def drawn(seed: int, blocks: int, truth: list[float], noise: float = 0.0) -> list[Outcome]:
    """Blocks whose position k is kept with probability sigmoid(logit / truth[k])."""
    random = Random(seed)
    outcomes = []
    for _ in range(blocks):
        logits = tuple(random.uniform(-1, 5) for _ in truth)
        accepted = 0
        for logit, temperature in zip(logits, truth, strict=True):
            if random.random() >= 1 / (1 + exp(-logit / temperature)):
                break
            accepted += 1
        shown = tuple(logit + random.gauss(0, noise) for logit in logits)
        outcomes.append(Outcome(shown, len(truth), accepted))
    return outcomes


@both
def test_a_fit_recovers_the_temperatures_that_made_the_outcomes(side: Side) -> None:
    """If this fails, calibration does not calibrate.

    5,000 blocks leave two thousand for the third position; within three steps of the grid.
    """
    truth = [2.0, 1.0, 4.0]
    found = side.fit(drawn(1, 5_000, truth), 3)
    for temperature, true in zip(found, truth, strict=True):
        assert true * 2 ** (-3 / 8) <= temperature <= true * 2 ** (3 / 8)


def error_at(outcomes: list[Outcome], temperatures: list[float], k: int) -> float:
    """The error of the survivals up to position k, told again by the functions of a step."""
    reached = [outcome for outcome in outcomes if outcome.verified > k]
    confidences = calibrated(
        [outcome.logits[: k + 1] for outcome in reached], temperatures[: k + 1]
    )
    predictions = [row[k] for row in survival(confidences, len(reached))]
    return calibration_error(predictions, [outcome.accepted > k for outcome in reached])


@both
@given(seed=st.integers(0, 99), blocks=st.integers(1, 60))
def test_each_temperature_is_the_best_with_the_earlier_ones_fixed(
    side: Side, seed: int, blocks: int
) -> None:
    """If this fails, some position's survivals could have been closer to what happens.

    1e-9: sums of at most 60 numbers below 1, whichever way round.
    """
    random = Random(seed)
    outcomes = [
        Outcome(o.logits, v := random.randint(0, 2), min(v, o.accepted))
        for o in drawn(seed, blocks, [1.5, 0.5], noise=1.0)
    ]
    found = side.fit(outcomes, 2)
    for k in range(2):
        if any(outcome.verified > k for outcome in outcomes):
            errors = {t: error_at(outcomes, [*found[:k], t], k) for t in GRID}
            assert errors[found[k]] <= min(errors.values()) + 1e-9


def test_calibrating_makes_an_overconfident_head_honest() -> None:
    """If this fails, the budget is planned with survivals that are too good to be true.

    Fitted on one half, judged on the other, which the fit never saw.
    """
    truth = [3.0, 3.0]
    temperatures = fit(drawn(2, 4000, truth), 2)
    held_out = drawn(3, 4000, truth)
    for k in range(2):
        before, after = (error_at(held_out, scales, k) for scales in ([1.0, 1.0], temperatures))
        assert before > 0.08
        assert after < 0.04


@both
def test_what_says_nothing_is_left_out(side: Side) -> None:
    """If this fails, a fit learns from drafts that were never verified, or from a fault.

    Blocks with a window of one draft say nothing about the second; all of a scheduler's short
    windows together would otherwise read as rejections.
    """
    full, short = drawn(4, 500, [1.0, 2.0]), drawn(5, 500, [1.0, 2.0])
    cut = [Outcome((o.logits[0], -9.0), 1, min(1, o.accepted)) for o in short]
    broken = [Outcome((NAN, 1.0), 2, 0), Outcome((1.0, NAN), 2, 0)] * 100
    with_cut = side.fit([*full, *cut, *broken], 2)
    assert with_cut[1] == side.fit([*full, *[Outcome(o.logits, 1, o.accepted) for o in cut]], 2)[1]
    assert side.fit([*full, *broken], 2) == side.fit(full, 2)
    assert side.fit([], 2) == [1.0, 1.0]
    assert side.fit(cut, 2)[1] == 1.0


@both
def test_equal_errors_leave_the_temperature_at_one(side: Side) -> None:
    """If this fails, a fit without information still changes the confidences.

    A logit of 0 is one half at every temperature.
    """
    assert side.fit([Outcome((0.0,), 1, 1)], 1) == [1.0]


def test_grids_are_tried_from_one_outwards() -> None:
    """If this fails, equal errors are settled by the order of somebody's grid."""
    flat = [Outcome((0.0,), 1, 1)]
    assert fit(flat, 1, grid=(8.0, 0.5, 2.0)) == [0.5]
    assert fit(flat, 1, grid=(8.0, 2.0)) == [2.0]
    assert REFERENCE.fit(flat, 1) == [1.0]
