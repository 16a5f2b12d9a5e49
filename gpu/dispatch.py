"""Eager or Triton: the one place that chooses, by the option `kernels`."""

from __future__ import annotations

import torch

from draftproof.gpu.draft_model.model import EAGER
from draftproof.gpu.draft_model.model import Operations as DraftOperations
from draftproof.gpu.operations import Eager, Operations


def operations(kernels: str, device: torch.device) -> Operations:
    """The worker's operations. Raises ValueError if Triton cannot serve this device here."""
    if kernels == "eager":
        return Eager()
    _prepare(device)
    from draftproof.gpu.kernels.operations import Kernels

    return Kernels()


def draft_operations(kernels: str, device: torch.device) -> DraftOperations:
    """The draft model's operations. Raises ValueError like `operations`."""
    if kernels == "eager":
        return EAGER
    _prepare(device)
    from draftproof.gpu.kernels.draft_model import OPERATIONS

    return OPERATIONS


def _prepare(device: torch.device) -> None:
    """Nothing of `gpu.kernels` may be imported before this, nor Triton."""
    from draftproof.gpu.kernels.loading import prepare

    prepare(device)
