"""The one place through which every kernel is launched, and how large its tiles are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import triton
from torch import Tensor

LARGEST_TILE = 2**20
"""Elements of the largest tile that Triton makes, interpreted ones included."""

Launch = Callable[[Any, tuple[int, ...], tuple[Any, ...], int, dict[str, Any]], None]
"""Kernel, grid, arguments, warps, constants."""

_instead: Launch | None = None


def launch(
    kernel: Any, grid: tuple[int, ...], *arguments: Any, warps: int = 4, **constants: Any
) -> None:
    """Run a kernel over a grid of programs; one without programs is not run."""
    if 0 in grid:
        return
    if _instead is not None:
        _instead(kernel, grid, arguments, warps, constants)
    else:
        kernel[grid](*arguments, num_warps=warps, **constants)


@contextmanager
def launching_by(other: Launch) -> Iterator[None]:
    """Hand every launch to something else: a recorder, or a guard around the real one."""
    global _instead
    before, _instead = _instead, other
    try:
        yield
    finally:
        _instead = before


def watched(device: torch.device) -> bool:
    """Whether launches go to somebody else now, or into a graph that is being captured."""
    if _instead is not None:
        return True
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def interpreted() -> bool:
    """Whether kernels are interpreted; then a launch should be one program."""
    return bool(triton.knobs.runtime.interpret)


def tile(length: int, most: int, each: int = 1) -> int:
    """Rows, or columns, per program: all that a tile can hold if interpreted, else `most`.

    Interpreting costs the same however large a tile is; compiled, `most` is also the only size,
    so that a kernel is not compiled again for every batch. each: elements of a tile that belong to
    one row, or column, a power of two.
    """
    if not interpreted():
        return most
    return min(power_of_two(length), max(1, LARGEST_TILE // each))


def pieces(length: int, most: int, columns: int) -> tuple[int, int]:
    """Into what a vocabulary is cut: tokens per piece, a multiple of `columns`, and pieces.

    One piece if interpreted, else about `most`.
    """
    wanted = programs(length, 1 if interpreted() else most)
    piece = programs(wanted, columns) * columns
    return piece, programs(length, piece)


def programs(length: int, block: int) -> int:
    """How many programs of `block` rows serve `length` rows."""
    return -(-length // block)


def power_of_two(length: int) -> int:
    """The smallest power of two that is at least `length`."""
    return 1 << max(length - 1, 0).bit_length()


def inner(*tensors: Tensor | None) -> None:
    """Assert that the last dimension of each tensor is contiguous: kernels take it for granted."""
    for tensor in tensors:
        assert tensor is None or tensor.shape[-1] < 2 or tensor.stride(-1) == 1, tensor.stride()
