"""Advancing the counters of generations and of seeded contexts (sections 5 and 7)."""

from __future__ import annotations

import torch
from torch import Tensor


def advance(
    ctx_len: Tensor,
    valid_len: Tensor,
    initialized: Tensor,
    slots: Tensor,
    positions: Tensor,
    counts: Tensor,
    width: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Move each generation on by the tokens it accepted (section 7).

    ctx_len, valid_len: int64 [S + 1]; initialized: bool [S + 1]; changed in place.
    slots, positions (of the anchors), counts: int64 [G]. The scratch row, which padding and idle
    rows share, restarts from 0 at every step (section 16, row 2).
    Returns old, start = old + n and the new valid length, int64 [G] each.
    """
    scratch = slots == ctx_len.shape[0] - 1
    old = torch.where(initialized[slots], ctx_len[slots], positions)
    old = torch.where(scratch, 0, old)
    start = old + counts
    seen = torch.where(scratch, 0, valid_len[slots])
    valid = (seen + counts).clamp(max=width)
    ctx_len[slots] = start
    valid_len[slots] = valid
    initialized.index_fill_(0, slots, True)
    return old, start, valid


def seed(
    ctx_len: Tensor,
    valid_len: Tensor,
    initialized: Tensor,
    slots: Tensor,
    ends: Tensor,
    lengths: Tensor,
    width: int,
) -> None:
    """Count prompt chunks in: `ctx_len` is absolute, `valid_len` grows by the chunk (section 5).

    State as in `advance`; slots, ends (last position + 1), lengths: int64 [contexts].
    """
    ctx_len[slots] = ends
    valid_len[slots] = (valid_len[slots] + lengths).clamp(max=width)
    initialized.index_fill_(0, slots, True)
