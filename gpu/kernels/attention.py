"""Multi-query attention with a sink, over visible window cells and the block (section 8b)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.gpu.kernels.launching import inner, launch, power_of_two, programs, tile
from draftproof.gpu.kernels.numbers import LOWEST, dot, rounded


def sink_attention(
    q: Tensor,
    windows: Tensor,
    slots: Tensor,
    visible: Tensor,
    block_kv: Tensor,
    sink: Tensor,
    most: int = 16,
    most_cells: int = 32,
    warps: int = 4,
) -> Tensor:
    """Twin of `gpu.draft_model.operations.sink_attention`; arguments and result as there.

    All of q, windows and block_kv have one dtype. In bfloat16 the masses of the softmax, at most
    1 each, are rounded to it before they weigh the rows, so a component is off by up to 2^-8 of
    the largest visible one, and by its own rounding. most: rows (k, n) per program; most_cells:
    window cells per iteration.
    """
    assert q.dtype == windows.dtype == block_kv.dtype, (q.dtype, windows.dtype, block_kv.dtype)
    inner(q, windows, block_kv)
    (requests, block, heads, size), width = q.shape, windows.shape[1]
    q = q.contiguous()
    out = torch.empty_like(q)
    per_program = max(tile(block * heads, most, power_of_two(size)), 16)
    launch(
        sink_attention_kernel,
        (requests, programs(block * heads, per_program)),
        *(q, windows, *windows.stride()[:2], slots, visible, visible.stride(0)),
        *(block_kv, *block_kv.stride()[:2], sink, out, size**-0.5, block, heads, size),
        WIDTH=width,
        BLOCK_M=per_program,
        BLOCK_N=max(tile(width, most_cells, max(per_program, power_of_two(size))), 16),
        BLOCK_K=max(power_of_two(block), 16),
        BLOCK_D=max(power_of_two(size), 16),
        warps=warps,
    )
    return out


@triton.jit
def sink_attention_kernel(
    q, windows, slot_stride, column_stride, slots, visible, visible_stride,
    block_kv, kv_stride, kv_row_stride, sink, out, scale, block, heads, size,
    WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    BLOCK_D: tl.constexpr,
):  # fmt: skip
    """One program per request and BLOCK_M of its rows (k, n), which share all keys and values.

    The sink opens the running softmax: highest = sink, total = 1, and no row of its own.
    """
    g = tl.program_id(0).to(tl.int64)
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, BLOCK_D)[None, :]
    row, inside = m < block * heads, d < size
    place = (g * block * heads + m)[:, None] * size + d
    query = tl.load(q + place, mask=row[:, None] & inside, other=0.0)
    highest = tl.maximum(tl.load(sink + m % heads, mask=row, other=0.0), LOWEST)
    total = tl.full([BLOCK_M], 1.0, tl.float32)
    mean = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    cells = windows + tl.load(slots + g) * slot_stride
    for first in range(0, WIDTH, BLOCK_N):
        c = first + tl.arange(0, BLOCK_N)
        seen = tl.load(visible + g * visible_stride + c, mask=c < WIDTH, other=0) != 0
        kv = tl.load(cells + c[:, None] * column_stride + d, mask=seen[:, None] & inside, other=0.0)
        highest, total, mean = attended(query, kv, seen, scale, highest, total, mean)
    k = tl.arange(0, BLOCK_K)
    seen = k < block
    rows = block_kv + g * kv_stride + k[:, None] * kv_row_stride + d
    kv = tl.load(rows, mask=seen[:, None] & inside, other=0.0)
    highest, total, mean = attended(query, kv, seen, scale, highest, total, mean)
    mean = rounded(mean / total[:, None], out.dtype.element_ty)
    tl.store(out + place, mean, mask=row[:, None] & inside)


@triton.jit
def attended(query, kv, seen, scale, highest, total, mean):
    """The running softmax after rows kv [BLOCK_N, BLOCK_D], of which those not seen are 0."""
    nothing = tl.zeros([query.shape[0], kv.shape[0]], tl.float32)
    scores = dot(query, tl.trans(kv), nothing) * scale
    scores = tl.where(seen[None, :], scores, float("-inf"))
    higher = tl.maximum(highest, tl.max(scores, 1))
    masses = tl.exp(scores - higher[:, None])
    faded = tl.exp(highest - higher)
    mean = dot(rounded(masses, kv.dtype), kv, mean * faded[:, None])
    return higher, total * faded + tl.sum(masses, 1), mean
