"""Sampled decoding on Triton kernels, token for token as on torch's operations; and on poison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from draftproof.fuzz.lossless.decoding import Pair, Setting, alike, decode, pairs
from draftproof.fuzz.lossless.law import DEFECTS, STEPS
from draftproof.reference.vocabulary import Collaborators, Config, Worker
from draftproof.sim.loading import load
from draftproof.sim.lockstep import MakeWorker

pytestmark = pytest.mark.interpreted

PAIRS = pairs()
SHARE = -(-STEPS // len(PAIRS))
EAGER = load("draftproof.gpu.worker:make")
TRITON = load("draftproof.gpu.worker:make", options={"kernels": "triton"})


def test_that_is_two_thousand_steps() -> None:
    """If this fails, the tests below compare fewer steps than the page says."""
    assert STEPS == 2_000
    assert SHARE * len(PAIRS) >= STEPS


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_triton_says_what_eager_says(pair: Pair) -> None:
    """If this fails, a sampled output depends on the backend."""
    assert alike(pair, EAGER, TRITON, SHARE) == SHARE


@pytest.fixture
def _empty_is_poison() -> Iterator[None]:
    """`torch.empty` gives NaN, or the largest integer; torch's own switch imports its compiler."""
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    yield
    torch._C._set_deterministic_algorithms(False)


@pytest.mark.usefixtures("_empty_is_poison")
@pytest.mark.parametrize(("make", "tokens"), [(EAGER, 20_000), (TRITON, 2_000)])
@pytest.mark.parametrize("index", [1, 2, 4], ids=["exact, narrow", "lent", "lent, narrow"])
def test_poison_changes_no_token(make: MakeWorker, tokens: int, index: int) -> None:
    """If this fails, the law is measured of tokens that depend on memory that nobody wrote."""
    setting = Setting(PAIRS[index], None)

    def poisoned(config: Config, lent: Collaborators) -> Worker:
        return make(replace(config, poison=True), lent)

    assert decode(setting, poisoned, tokens) == decode(setting, EAGER, tokens)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_two_that_differ_are_found_to_differ(defect: object) -> None:
    """If this fails, the comparison above compares nothing."""
    other = load(getattr(defect, "implementation", ""))
    steps = [alike(PAIRS[i], EAGER, other, SHARE) for i in (2, 4)]
    greedy_only = "keeps-probabilities" in getattr(defect, "name", "")
    assert (min(steps) == SHARE) == greedy_only
