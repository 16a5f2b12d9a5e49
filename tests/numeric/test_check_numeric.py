"""What `check_numeric` forgives, what it does not, and what it says."""

from __future__ import annotations

from dataclasses import replace

import torch

from draftproof.gpu.draft_model.door import make
from draftproof.reference.numeric.shape import Shape, random_weights
from draftproof.sim.numeric import NumericReport, check_numeric
from draftproof.sim.numeric_door import random_state
from draftproof.sim.numeric_error import Arithmetic
from numeric.doubles import (
    Exact,
    OneNaN,
    OneRequestLess,
    Ragged,
    SecondAlways,
    SecondWithin,
    TooShort,
    WithoutTokens,
    WithoutWindows,
)
from numeric.planted import DEFECTS

SMALL = Shape(
    block=4, stages=1, vocab=16, hidden=8, captured_layers=1, streams=2, heads=1, head_dim=4,
    rope_head_dim=2, q_rank=4, groups=1, o_rank=4, ffn=8, markov_rank=4,
)  # fmt: skip


def test_the_truth_passes_with_no_error_at_all() -> None:
    """If this fails, the check itself adds errors."""
    report = check_numeric(Exact, Shape())
    assert report.ok
    assert max(report.worst.values()) < 1e-6
    assert report.lines() == [
        "float32: errors as shares of their tolerance: window_rows 0.000, hidden 0.000, "
        "logits 0.000, confidence 0.000",
        "0 of 30 positions are near-ties, 0 decided otherwise, 0 not compared after one",
    ]


def test_another_choice_at_a_near_tie_is_counted_and_never_fed_on() -> None:
    """If this fails, rounding that turns one token is held against the tokens after it."""
    reports = [check_numeric(SecondWithin, SMALL, "bfloat16", seed) for seed in range(8)]
    assert [report.failures for report in reports] == [[]] * 8
    assert sum(report.flips for report in reports) > 0
    assert sum(report.unfed for report in reports) > 0
    assert all(report.flips <= report.near_ties for report in reports)


def test_the_second_best_token_elsewhere_is_an_error() -> None:
    """If this fails, tokens are forgiven beyond the tolerance of their logits."""
    report = check_numeric(SecondAlways, SMALL, "bfloat16")
    wrong = [failure for failure in report.failures if failure.field == "tokens"]
    assert len(wrong) == report.positions - report.near_ties
    assert {failure.field for failure in report.failures} == {"tokens", "chain"}
    assert report.flips == report.near_ties


def test_too_many_near_ties_are_an_error() -> None:
    """If this fails, a model whose logits say nothing counts as checked."""
    report = check_numeric(Exact, Shape(stages=1), "bfloat16", arithmetic=Arithmetic(2.0**-5))
    (failure,) = report.failures
    assert failure.field == "near-ties"
    assert failure.found == report.near_ties


def test_what_is_not_shown_is_named() -> None:
    """If this fails, a report passes over what it did not compare."""
    assert check_numeric(WithoutWindows, SMALL).not_checked == {
        "window_rows",
        "hidden",
        "confidence",
    }
    report = check_numeric(WithoutTokens, SMALL)
    assert report.ok
    assert report.not_checked == {"tokens", "chain"}
    assert report.lines()[-1] == "not checked: chain, tokens"


def test_a_nan_is_never_within_a_tolerance() -> None:
    """If this fails, NaN compares as equal to everything."""
    report = check_numeric(OneNaN, SMALL)
    first = report.failures[0]
    assert (first.field, first.row, first.position) == ("hidden", 0, 1)
    assert first.whose is not None
    assert first.whose.startswith("component 2, tolerance ")


def test_a_result_of_another_shape_is_an_error() -> None:
    """If this fails, missing rows are not missed."""
    first = check_numeric(TooShort, SMALL).failures[0]
    assert (first.field, first.expected, first.found) == ("hidden", "shape (4, 8)", "shape (3, 8)")
    for wrong in (OneRequestLess, Ragged):
        failures = check_numeric(wrong, SMALL).failures
        assert {"logits", "tokens", "chain"} <= {failure.field for failure in failures}


def test_a_failure_is_told_with_its_place() -> None:
    """If this fails, whoever has to find the fault is not told where to look."""
    report: NumericReport = check_numeric(DEFECTS["window_at_position"], SMALL, seed=3)
    lines = report.lines()
    assert lines[2].split() == ["found", "by", "comparison"]
    assert {line.split()[0] for line in lines[2:]} == {
        *("found", "field", "stage", "frame", "expected", "whose")
    }


def test_a_state_can_be_given() -> None:
    """If this fails, a step cannot be repeated from the state where it went wrong."""
    state = random_state(SMALL, random_weights(SMALL, 9), 9)
    one = replace(
        state, windows=state.windows[:1], starts=state.starts[:1], bonuses=state.bonuses[:1]
    )
    assert check_numeric(make, SMALL, seed=9, state=one).positions == SMALL.block


def test_states_and_weights_come_from_the_seed_alone() -> None:
    """If this fails, a red check cannot be repeated, or dtypes are given different numbers."""
    first, second = (random_weights(SMALL, 4) for _ in range(2))
    assert first == second
    assert first != random_weights(SMALL, 5)
    assert random_state(SMALL, first, 4) == random_state(SMALL, first, 4)
    exact = torch.tensor(first.embedding).to(torch.bfloat16).tolist()
    assert exact == first.embedding
