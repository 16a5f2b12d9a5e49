"""Arithmetic that kernels share."""

from __future__ import annotations

import triton
import triton.language as tl

INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))

LOWEST = tl.constexpr(-1.0e30)
"""Below every logit, score or sink that can win; unlike -inf it can be subtracted from itself."""


@triton.jit
def rounded(x, dtype):
    """float32 to the dtype, to nearest, ties to even.

    Compiled, a conversion does that. The interpreter cuts bfloat16 off instead, so there the last
    of its bits is settled first.
    """
    if INTERPRETED and dtype == tl.bfloat16:
        bits = x.to(tl.int32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000
        x = bits.to(tl.float32, bitcast=True)
    return x.to(dtype)


@triton.jit
def dot(a, b, sums):
    """a · b + sums in float32, without the rounding of float32 factors that a GPU would choose.

    Triton 3.7's interpreter multiplies the bits of bfloat16 factors: there they become float32,
    which holds them and their products exactly.
    """
    if INTERPRETED:
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, sums, input_precision="ieee")
