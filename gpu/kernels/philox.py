"""Random numbers of all rows of a step in one launch (section 6)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.gpu.kernels.launching import launch, programs, tile
from draftproof.gpu.philox import DRAWN, Seeds, purposes


def uniforms(seeds: Seeds, count: int, most: int = 256) -> Tensor:
    """Twin of `gpu.philox.uniforms`; most: numbers per program."""
    rows, device = len(seeds.positions), seeds.positions.device
    out = torch.empty(len(DRAWN), rows, count, dtype=torch.float32, device=device)
    block = tile(out.numel(), most)
    launch(
        uniforms_kernel,
        (programs(out.numel(), block),),
        *(*seeds, purposes(device), out, out.numel(), rows, count),
        BLOCK=block,
    )
    return out


@triton.jit(do_not_specialize=["size", "rows", "count"])
def uniforms_kernel(
    low, high, incarnations, positions, purposes, out, size, rows, count, BLOCK: tl.constexpr
):
    """One program per BLOCK numbers, of the `size` in [purposes, rows, count]."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    g = at // count % rows
    position = tl.load(positions + g, mask=inside, other=0) + 1 + at % count
    incarnation = tl.load(incarnations + g, mask=inside, other=0)
    purpose = tl.load(purposes + at // count // rows, mask=inside, other=0)
    word, _, _, _ = tl.philox_impl(
        incarnation.to(tl.uint32),
        position.to(tl.uint32),
        purpose.to(tl.uint32),
        tl.zeros([BLOCK], tl.uint32),
        tl.load(low + g, mask=inside, other=0).to(tl.uint32),
        tl.load(high + g, mask=inside, other=0).to(tl.uint32),
    )
    number = ((word >> 8) + 1).to(tl.float32) * (1 / 16777216)
    tl.store(out + at, number, mask=inside)
