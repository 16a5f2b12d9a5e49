"""Kernels of the state-check path: bit by bit what their eager twins do."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from device import DEVICE

from draftproof.gpu.kernels import (
    acceptance,
    exact_drafter,
    philox,
    probabilities,
    rejection,
    windows,
)
from draftproof.gpu.operations import Eager
from kernels import checks
from kernels.inputs import same

pytestmark = pytest.mark.interpreted

CHECKS = [
    (checks.check_verify, acceptance),
    (checks.check_reject, rejection),
    (checks.check_windows, windows),
    (checks.check_masked_rows, windows),
    (checks.check_draft, exact_drafter),
    (checks.check_one_hot, probabilities),
    (checks.check_scatter, probabilities),
    (checks.check_uniforms, philox),
]


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    ("check", "module"), CHECKS, ids=[check.__name__.removeprefix("check_") for check, _ in CHECKS]
)
def test_a_kernel_does_what_its_twin_does(
    check: Callable[[ModuleType], None], module: ModuleType
) -> None:
    """If this fails, `-o kernels=triton` is another worker than the eager one."""
    check(module)


def test_a_vocabulary_larger_than_a_tile() -> None:
    """If this fails, kernels cannot be interpreted at published sizes: a tile has a largest size.

    Four rows of K = 5 become 32 of a tile, which has 2^20 elements.
    """
    vocab, slots = 40_000, torch.tensor([3, 0, 2, 1], device=DEVICE)
    tokens = (torch.arange(20, device=DEVICE) * 1999).view(4, 5)
    found, expected = (torch.full((5, 5, vocab), 7.0, device=DEVICE) for _ in range(2))
    probabilities.write_one_hot(found, slots, tokens)
    Eager().publish_one_hot(expected, slots, tokens)
    same(found, expected)
