"""Launches between guards: the interpreter writes out of bounds without a word."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from triton.runtime.interpreter import interpreter_builder

from draftproof.gpu.kernels import launching

WAYS = ("one program", "many programs", "backwards")
PAD = 4096
GUARD = 0xFF
"""A byte that makes NaN of every float, and of every integer an index out of range."""


class Guarded:
    """A copy of a storage with guards on both sides."""

    def __init__(self, tensor: Tensor) -> None:
        self.original = as_bytes(tensor)
        self.copy = torch.full((len(self.original) + 2 * PAD,), GUARD, dtype=torch.uint8)
        self.copy[PAD:-PAD] = self.original

    def stand_in(self, tensor: Tensor) -> Tensor:
        """The same view of the copy."""
        offset = PAD // tensor.itemsize + tensor.storage_offset()
        view = torch.empty(0, dtype=tensor.dtype)
        return view.set_(self.copy.untyped_storage(), offset, tensor.shape, tensor.stride())

    def settle(self) -> None:
        """Check the guards, and take over what was written between them."""
        assert (self.copy[:PAD] == GUARD).all(), "a kernel wrote before a buffer"
        assert (self.copy[-PAD:] == GUARD).all(), "a kernel wrote past a buffer"
        self.original.copy_(self.copy[PAD:-PAD])


def as_bytes(tensor: Tensor) -> Tensor:
    """The whole storage of a tensor."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


def guarded(
    kernel: Any,
    grid: tuple[int, ...],
    arguments: tuple[Any, ...],
    warps: int,
    constants: dict[str, Any],
) -> None:
    """A launch on guarded copies of its tensors."""
    copies: dict[int, Guarded] = {}
    given = []
    for value in arguments:
        if isinstance(value, Tensor):
            guards = copies.setdefault(value.untyped_storage().data_ptr(), Guarded(value))
            given.append(guards.stand_in(value))
        else:
            given.append(value)
    kernel[grid](*given, num_warps=warps, **constants)
    for guards in copies.values():
        guards.settle()


def run_programs(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """How much of a launch one program serves, and in which order programs run.

    A GPU promises no order: what depends on it shows when programs run from the last to the first.
    """
    assert way in WAYS
    if way == "one program":
        return
    monkeypatch.setattr(launching, "interpreted", lambda: False)
    forwards = interpreter_builder.set_grid_idx

    def set_grid_idx(x: int, y: int, z: int) -> None:
        across, down, deep = interpreter_builder.grid_dim
        forwards(across - 1 - x, down - 1 - y, deep - 1 - z)

    if way == "backwards":
        monkeypatch.setattr(interpreter_builder, "set_grid_idx", set_grid_idx)
