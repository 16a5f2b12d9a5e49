"""The rolling windows: [S + 1, stages, W, D], frame f of a slot in column f mod W (section 2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from draftproof.gpu.constants import ramp

Chunk = tuple[int, int, int, int]
"""A prompt chunk: slot, first token row, first position, length."""


def staged(rows: Tensor, stages: int) -> Tensor:
    """Copies of hidden rows, one for each stage, the stage in the last component (section 8a).

    rows: [..., D], last component 0. Returns [..., stages, D] of the same dtype.
    """
    names = torch.zeros(stages, rows.shape[-1], dtype=rows.dtype, device=rows.device)
    names[:, -1] = ramp(stages, rows.device)
    return rows.unsqueeze(-2) + names


def write_accepted(
    windows: Tensor, slots: Tensor, old: Tensor, counts: Tensor, rows: Tensor
) -> None:
    """Store the accepted rows of a step: row i of generation g at frame old + 1 + i (section 7).

    windows: [S + 1, stages, W, D]; slots, old, counts: int64 [G]; rows: [G, R, stages, D].
    Rows at and past `counts` were rejected, and of more than W accepted rows only the last W
    survive. Both kinds go to the scratch row S instead, so that shapes stay fixed, every column
    of a real slot has at most one writer, and a masked row cannot undo a real one at W < R.
    """
    scratch, width = windows.shape[0] - 1, windows.shape[2]
    i = ramp(rows.shape[1], rows.device)
    n = counts.unsqueeze(1)
    stored = (i < n) & (i >= n - width)
    slot = torch.where(stored, slots.unsqueeze(1), scratch)
    column = (old.unsqueeze(1) + 1 + i) % width
    windows[slot, :, column] = rows


def write_frames(windows: Tensor, slots: Tensor, frames: Tensor, rows: Tensor) -> None:
    """Store prompt rows at given frames (section 5).

    slots, frames: int64 [N], no two of the same slot and column; rows: [N, stages, D].
    """
    windows[slots, :, frames % windows.shape[2]] = rows


def visible_columns(start: Tensor, valid: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """What each column holds for a block that starts at `start` (section 2).

    start, valid: int64 [G]. Returns frames, int64 [G, W], and visible, bool [G, W]; the frame of
    a column that is not visible means nothing.
    """
    age = (start.unsqueeze(1) - ramp(width, start.device)) % width
    return start.unsqueeze(1) - age, age < valid.unsqueeze(1)


def prompt_rows(chunks: Sequence[Chunk], width: int) -> tuple[list[int], list[int], list[int]]:
    """Which token rows of prompt chunks are stored, and where; on the host (section 5).

    Of each chunk the last `width` tokens are stored. Returns token rows, slots and frames, one
    entry per stored row.
    """
    sources: list[int] = []
    slots: list[int] = []
    frames: list[int] = []
    for slot, row, position, length in chunks:
        kept = min(width, length)
        skipped = length - kept
        sources += range(row + skipped, row + length)
        slots += [slot] * kept
        frames += range(position + skipped + 1, position + length + 1)
    return sources, slots, frames
