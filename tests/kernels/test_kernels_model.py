"""Kernels of the draft model: what their eager twins do, to within rounding."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from device import DEVICE

from draftproof.gpu.dispatch import draft_operations
from draftproof.gpu.draft_model.model import DraftModel
from draftproof.gpu.draft_model.shape import DraftShape, random_weights
from draftproof.gpu.kernels import attention, draft_model, markov, windows
from kernels import model_checks as checks
from kernels.inputs import Numbers

pytestmark = pytest.mark.interpreted

CHECKS = [
    (checks.check_attention, attention),
    (checks.check_norm_rotary, draft_model),
    (checks.check_normed_windows, windows),
    (checks.check_markov, markov),
    (checks.check_markov_sampled, markov),
]
SHAPE = DraftShape(
    block=4,
    window=6,
    stages=2,
    vocab=40,
    hidden=32,
    captured_layers=2,
    streams=2,
    heads=4,
    head_dim=16,
    rope_head_dim=8,
    q_rank=12,
    groups=2,
    o_rank=8,
    ffn=24,
    markov_rank=8,
    noise_token=3,
)


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    ("check", "module"), CHECKS, ids=[check.__name__.removeprefix("check_") for check, _ in CHECKS]
)
def test_a_kernel_does_what_its_twin_does(
    check: Callable[[ModuleType], None], module: ModuleType
) -> None:
    """If this fails, a draft model on Triton kernels proposes something else."""
    check(module)


def test_a_whole_draft_model_on_kernels() -> None:
    """If this fails, a twin has another signature or layout than the function it stands for."""
    weights = random_weights(SHAPE, torch.float32, DEVICE)
    kernels = DraftModel(SHAPE, weights, draft_operations("triton", DEVICE))
    eager = DraftModel(SHAPE, weights, draft_operations("eager", DEVICE))
    numbers = Numbers(1)
    captured, frames = [numbers.normal(5, 64) for _ in range(2)], torch.arange(5) + 3
    torch.testing.assert_close(
        kernels.window_rows(captured, frames), eager.window_rows(captured, frames)
    )
    cells = numbers.normal(3, 2, 6, 16)
    slots, start, valid = torch.tensor([1, 0]), torch.tensor([9, 2]), torch.tensor([6, 2])
    given = cells, slots, start, valid, torch.tensor([7, 39])
    for mine, theirs in zip(kernels.draft(*given), eager.draft(*given), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)
