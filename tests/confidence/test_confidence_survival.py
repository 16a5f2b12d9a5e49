"""Section 14: which confidences count, and what they multiply to."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from confidence import rules
from confidence.cases import NAN, Batch, Stored, batches, nearest, stored
from confidence.sides import REFERENCE, TORCH, Side, both
from hypothesis import given
from hypothesis import strategies as st

from draftproof.gpu.confidence import History, recall, remember
from draftproof.reference.confidence import LEAST_SURVIVAL, Snapshot, calibrated
from draftproof.reference.vocabulary import GenerationRow


@both
@given(case=stored())
def test_old_unknown_and_broken_rows_are_neutral_as_a_whole(side: Side, case: Stored) -> None:
    """If this fails, a step is scheduled by confidences of other drafts, or of nobody's."""
    rules.neutral_rows(side, case)


@both
@given(case=stored())
def test_what_is_not_believed_reaches_nobody(side: Side, case: Stored) -> None:
    """If this fails, a NaN in one request's row changes another request's window."""
    rules.no_spreading(side, case)


@both
@given(case=batches())
def test_survival_is_rounded_at_each_factor(side: Side, case: Batch) -> None:
    """If this fails, the two sides rank by numbers that differ in the last bit."""
    rules.float32_products(side, case)


@both
def test_a_neutral_row_is_certain_of_itself_unless_the_temperature_is_high(side: Side) -> None:
    """If this fails, the neutral logit is used as a confidence, or after the calibration."""
    assert side.calibrated([[30.0, 30.0]], None) == [[1.0, 1.0]]
    (row,) = side.calibrated([[30.0, 30.0]], [1.0, 10.0])
    assert row[0] == 1.0
    assert row[1] == pytest.approx(1 / (1 + 2.718281828459045**-3), abs=1e-6)


@given(
    st.lists(st.floats(-80, 80, width=32), min_size=1, max_size=4),
    st.floats(0.25, 8, width=32),
)
def test_the_sigmoids_agree_but_for_the_last_bits(logits: list[float], temperature: float) -> None:
    """If this fails, a real run is calibrated by another formula.

    Float32 on the other side: the quotient is off by 2^-24 of |x| <= 320, which moves a sigmoid
    by at most a quarter of it, and three more roundings of 2^-24 relative to at most 1.
    """
    scales = [temperature] * len(logits)
    ours = REFERENCE.calibrated([logits], scales)[0]
    theirs = TORCH.calibrated([logits], scales)[0]
    assert ours == pytest.approx(theirs, abs=(320 / 4 + 3) * 2**-24)


@given(st.lists(st.floats(-20, 20, width=32), min_size=2, max_size=6), st.floats(0.25, 8))
def test_calibration_keeps_the_order(logits: list[float], temperature: float) -> None:
    """If this fails, a fitted temperature changes which draft is trusted more."""
    values = [calibrated([[x]], [temperature])[0][0] for x in sorted(logits)]
    assert values == sorted(values)


def test_the_sigmoid_of_a_large_logit_does_not_overflow() -> None:
    """If this fails, a very sure confidence head ends the step with an exception."""
    assert calibrated([[-1000.0, 1000.0]]) == [[0.0, 1.0]]


def test_the_least_survival_is_a_float32() -> None:
    """If this fails, a survival of exactly 1e-6 gets budget on one side only."""
    assert Fraction(LEAST_SURVIVAL) == Fraction(nearest(1e-6))
    below = torch.nextafter(torch.tensor(1e-6), torch.tensor(0.0)).item()
    for side in (REFERENCE, TORCH):
        assert side.windows([[1.0, LEAST_SURVIVAL]], 1, (1, 2), 1) == [3]
        assert side.windows([[1.0, below]], 1, (1, 2), 1) == [2]


# ---- snapshots -----------------------------------------------------------------------------------


def test_a_snapshot_belongs_to_the_incarnations_that_it_was_taken_of() -> None:
    """If this fails, a new request is scheduled by the confidences of its slot's last owner.

    Slot 0 was request 7's in its first life; slot 1 holds a row of an older step.
    """
    taken = Snapshot(
        logits=[[1.0], [2.0], [3.0], [NAN], [30.0]],
        stamps=[5, 4, 5, 5, 0],
        owners={7: (0, 1), 8: (1, 1), 9: (2, 1)},
        taken=5,
    )
    asked = [(7, 1), (7, 2), (8, 1), (9, 1), (10, 1)]
    rows = [GenerationRow(request, life, 0, 20) for request, life in asked]
    assert taken.sources(rows) == [0, 4, 4, 2, 4]


def test_the_history_keeps_the_last_steps_apart() -> None:
    """If this fails, the budget is planned from another step's confidences than it says."""
    history = History(torch.full((3, 4, 2), 30.0), torch.zeros(3, 4, dtype=torch.int64))
    for seq in range(1, 6):
        stamps = torch.full((4,), seq)
        remember(history, torch.full((4, 2), float(seq)), stamps, torch.tensor(seq))
    for seq in (3, 4, 5):
        logits, stamps = recall(history, torch.tensor(seq))
        assert logits.tolist() == [[seq, seq]] * 4
        assert stamps.tolist() == [seq] * 4
    _, stamps = recall(history, torch.tensor(2))
    assert stamps.tolist() == [5] * 4
