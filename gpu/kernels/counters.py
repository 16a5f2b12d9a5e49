"""Moving the counters on, inside the kernels that decide acceptance (section 7)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from draftproof.gpu.operations import Verified


def unwritten(rows: int, width: int, device: torch.device) -> Verified:
    """Outputs for `rows` generations of R = `width` rows, for a kernel to fill."""
    tokens = torch.empty(rows, width, dtype=torch.int64, device=device)
    return Verified(tokens, *torch.empty(4, rows, dtype=torch.int64, device=device))


@triton.jit
def advance_rows(
    ctx_len, valid_len, initialized, slots, positions, old_out, start_out, valid_out,
    g, row, count, scratch, width,
):  # fmt: skip
    """Twin of `gpu.advance.advance` for the generations g where `row`: both [BLOCK_ROWS].

    Padding and idle rows share the scratch row; whichever of them writes last wins, and what it
    writes came from no other row.
    """
    slot = tl.load(slots + g, mask=row, other=scratch)
    real = row & (slot != scratch)
    known = tl.load(initialized + slot, mask=row, other=0) != 0
    before = tl.load(ctx_len + slot, mask=real, other=0)
    position = tl.load(positions + g, mask=row, other=0)
    old = tl.where(real, tl.where(known, before, position), 0)
    start = old + count
    seen = tl.load(valid_len + slot, mask=real, other=0)
    valid = tl.minimum(seen + count, width)
    tl.store(ctx_len + slot, start, mask=row)
    tl.store(valid_len + slot, valid, mask=row)
    tl.store(initialized + slot, row, mask=row)
    tl.store(old_out + g, old, mask=row)
    tl.store(start_out + g, start, mask=row)
    tl.store(valid_out + g, valid, mask=row)
