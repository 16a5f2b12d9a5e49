"""Strict acceptance, uniform and ragged, and the counters, in one launch (sections 6 and 7)."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from draftproof.gpu.kernels.counters import advance_rows, unwritten
from draftproof.gpu.kernels.launching import inner, launch, power_of_two, programs, tile
from draftproof.gpu.operations import Counters, Verified


def verify(
    drafts: Tensor, target: Tensor, windows: Tensor | None, counters: Counters, most: int = 32
) -> Verified:
    """Twin of `gpu.acceptance.strict`, then `gpu.advance.advance`.

    drafts: int64 [G, r]; target: int64 [G, R]; windows: int64 [G] or None; most: rows per program.
    """
    inner(drafts, target)
    rows, width = target.shape
    out = unwritten(rows, width, target.device)
    block = tile(rows, most)
    launch(
        verify_kernel,
        (programs(rows, block),),
        *(drafts, target, windows, *counters[:5], *out),
        *(rows, width, drafts.stride(0), target.stride(0)),
        *(counters.ctx_len.shape[0] - 1, counters.width),
        BLOCK_ROWS=block,
        BLOCK_R=power_of_two(width),
        warps=1,
    )
    return out


@triton.jit(do_not_specialize=["rows", "r_rows", "scratch", "width"])
def verify_kernel(
    drafts, target, windows, ctx_len, valid_len, initialized, slots, positions,
    tokens_out, counts_out, old_out, start_out, valid_out,
    rows, r_rows, drafts_stride, target_stride, scratch, width,
    BLOCK_ROWS: tl.constexpr, BLOCK_R: tl.constexpr,
):  # fmt: skip
    """One program per BLOCK_ROWS generations; tiles [BLOCK_ROWS, BLOCK_R], R <= BLOCK_R."""
    g = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    row = g < rows
    i = tl.arange(0, BLOCK_R)[None, :]
    inside = row[:, None] & (i < r_rows)
    drafted = row[:, None] & (i < r_rows - 1)
    answer = tl.load(target + g[:, None] * target_stride + i, mask=inside, other=0)
    draft = tl.load(drafts + g[:, None] * drafts_stride + i, mask=drafted, other=0)
    match = drafted & (draft == answer)
    if windows is not None:
        window = tl.load(windows + g, mask=row, other=1)
        match = match & (i + 1 < window[:, None])
    accepted = tl.min(tl.where(match, BLOCK_R, i), 1)  # the first that does not match
    kept = tl.where(i <= accepted[:, None], answer, 0)
    tl.store(tokens_out + g[:, None] * r_rows + i, kept, mask=inside)
    count = (accepted + 1).to(tl.int64)
    tl.store(counts_out + g, count, mask=row)
    advance_rows(
        ctx_len, valid_len, initialized, slots, positions, old_out, start_out, valid_out,
        g, row, count, scratch, width,
    )  # fmt: skip
