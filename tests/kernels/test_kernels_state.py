"""Kernels of the state-check path: bit by bit what their eager twins do."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from draftproof.gpu.kernels import (
    acceptance,
    exact_drafter,
    philox,
    probabilities,
    rejection,
    windows,
)
from kernels import checks

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
