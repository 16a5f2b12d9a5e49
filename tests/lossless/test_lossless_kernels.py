"""Sampled decoding on Triton kernels, token for token as on torch's operations.

`make lossless` compares 2,000 steps; here are fewer, since interpreted ones are slow.
"""

from __future__ import annotations

import pytest

from draftproof.fuzz.decoding import Pair, alike, pairs
from draftproof.fuzz.lossless import DEFECTS
from draftproof.sim.loading import load

STEPS = 100
EAGER = load("draftproof.gpu.worker:make")
TRITON = load("draftproof.gpu.worker:make", options={"kernels": "triton"})


@pytest.mark.parametrize("pair", [pairs()[i] for i in (0, 1, 2, 4)], ids=lambda pair: pair.name)
def test_triton_says_what_eager_says(pair: Pair) -> None:
    """If this fails, a sampled output depends on the backend."""
    assert alike(pair, EAGER, TRITON, STEPS) == STEPS


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_two_that_differ_are_found_to_differ(defect: object) -> None:
    """If this fails, the comparison above compares nothing."""
    other = load(getattr(defect, "implementation", ""))
    steps = [alike(pairs()[i], EAGER, other, STEPS) for i in (2, 4)]
    greedy_only = "keeps-probabilities" in getattr(defect, "name", "")
    assert (min(steps) == STEPS) == greedy_only
