"""Every planted fault turns `check_numeric` red, in every dtype, and in the field it belongs to."""

from __future__ import annotations

import pytest

from draftproof.reference.numeric.shape import Shape
from draftproof.sim.numeric import check_numeric
from numeric.planted import DEFECTS, WINDOW_ONLY, state_not_carried, with_operations

CHAIN_ONLY = {"prev_without_bias", "prev_is_bonus", "no_bias"}
CONFIDENCE_ONLY = {
    "confidence_without_token",
    "confidence_from_own_token",
    "ConfidenceWithoutNorm",
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_fault_is_found(name: str, dtype: str) -> None:
    """If this fails, a draft model with this fault passes for a sound one."""
    report = check_numeric(DEFECTS[name], Shape(), dtype, seed=3)
    fields = {failure.field for failure in report.failures}
    if name in WINDOW_ONLY:
        assert fields == {"window_rows"}
    elif name in CHAIN_ONLY:
        assert fields <= {"chain", "tokens"}
        assert "chain" in fields
    elif name in CONFIDENCE_ONLY:
        assert fields == {"confidence"}
    elif name == "other_eps":
        assert "window_rows" in fields
    else:
        assert {"hidden", "logits"} <= fields


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_recurrent_head_without_memory_is_found(dtype: str) -> None:
    """If this fails, the state of the recurrent head is never looked at."""
    faulty = with_operations(state_not_carried())
    report = check_numeric(faulty, Shape(rnn=True), dtype, seed=3)
    assert {failure.field for failure in report.failures} == {"chain"}
