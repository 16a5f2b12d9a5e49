"""The rule of a draw, for masses summed over pieces of the vocabulary (section 6).

The first token whose running sum exceeds u · total: the first launch sums each piece, the second
one finds the piece and goes through it alone. The token found has mass itself, which says the same
where sums are exact, and stays true where they are rounded.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def choose_piece(part, last, threshold):
    """In which piece the draw falls.

    part: float32 [rows, BLOCK_PIECES], mass of each piece, 0 past the end; last: int64, last
    token of each with mass, -1 for none; threshold: [rows]. Returns the piece, the mass before
    it, and its last token; the piece is BLOCK_PIECES if no running sum exceeds the threshold.
    """
    s = tl.arange(0, part.shape[1])[None, :]
    beyond = (tl.cumsum(part, 1) > threshold[:, None]) & (part > 0)
    chosen = tl.min(tl.where(beyond, s, part.shape[1]), 1)
    before = tl.sum(tl.where(s < chosen[:, None], part, 0.0), 1)
    return chosen, before, tl.max(tl.where(s == chosen[:, None], last, -1), 1)


@triton.jit
def first_beyond(mass, before, threshold, v, none):
    """The first of the tokens v with mass whose running sum exceeds the threshold, [rows].

    mass: [rows, BLOCK_V]; before: [rows], mass before v; none: what to return without one.
    """
    beyond = (before[:, None] + tl.cumsum(mass, 1) > threshold[:, None]) & (mass > 0)
    return tl.min(tl.where(beyond, v, none), 1)
