"""Rejection sampling with given numbers, and the counters, in two launches (sections 6 and 7).

The first launch finds where each row's accepted prefix ends, and sums the residual mass there over
pieces of the vocabulary; the second one picks the piece in which the recovery draw falls, goes
through it alone, and moves the counters on. So a large vocabulary is read once, by many programs.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.gpu.kernels.counters import advance_rows, unwritten
from draftproof.gpu.kernels.drawing import choose_piece, first_beyond
from draftproof.gpu.kernels.launching import inner, launch, power_of_two, programs, tile
from draftproof.gpu.kernels.launching import pieces as cut
from draftproof.gpu.operations import Counters, Verified
from draftproof.gpu.rejection import Sampling

PIECES = 32
"""Programs per row when compiled; at G = 4 they fill the 132 processors of an H200."""


def reject(
    drafts: Tensor,
    draft_probs: Tensor,
    seq_slots: Tensor,
    sampling: Sampling,
    windows: Tensor | None,
    counters: Counters,
    most: int = 1,
    most_columns: int = 1024,
    most_pieces: int = PIECES,
) -> Verified:
    """Twin of `gpu.rejection.reject`, then `gpu.advance.advance`.

    drafts: int64 [G, r]; draft_probs: float32 [S + 1, K, V], of which generation g has the rows
    seq_slots[g]; windows: int64 [G] or None; most, most_columns: rows and tokens per tile.
    Sums are taken in another order than the twin's: tokens are the same where sums are exact.
    """
    (rows, width, vocab), device = sampling.target_probs.shape, drafts.device
    out = unwritten(rows, width, device)
    block = tile(rows, most)
    columns = tile(vocab, most_columns, block)
    piece, pieces = cut(vocab, most_pieces, columns)
    sums = torch.empty(rows, pieces, dtype=torch.float32, device=device)
    lasts = torch.empty(2, rows, pieces, dtype=torch.int64, device=device)
    rule = _rule(drafts, draft_probs, seq_slots, sampling, windows)
    partial = (sums, *lasts, out.counts)
    sizes = {"PIECE": piece, "BLOCK_ROWS": block, "BLOCK_V": columns, "warps": 4}
    launch(
        residual_kernel,
        (programs(rows, block), pieces),
        *(*rule, sampling.accept_uniforms, sampling.accept_uniforms.stride(0)),
        *(*partial, rows, width - 1, vocab, pieces),
        BLOCK_R=power_of_two(width),
        **sizes,
    )
    launch(
        recover_kernel,
        (programs(rows, block),),
        *(*rule, sampling.recover_uniforms, *counters[:5], *partial, out.tokens, *out[2:]),
        *sampling.recover_uniforms.stride(),
        *(rows, width - 1, vocab, pieces, counters.ctx_len.shape[0] - 1, counters.width),
        BLOCK_R=power_of_two(width),
        BLOCK_PIECES=power_of_two(pieces),
        **sizes,
    )
    return out


def _rule(
    drafts: Tensor,
    draft_probs: Tensor,
    seq_slots: Tensor,
    sampling: Sampling,
    windows: Tensor | None,
) -> list[Any]:
    """What both kernels need for q and p."""
    q = sampling.target_probs
    inner(drafts, draft_probs, q, sampling.accept_uniforms)
    tensors = [drafts, q, draft_probs, seq_slots, sampling.proposed, windows]
    return [*tensors, drafts.stride(0), *q.stride()[:2], *draft_probs.stride()[:2]]


@triton.jit(do_not_specialize=["rows", "r", "pieces"])
def residual_kernel(
    drafts, q, p, seq_slots, proposed, windows,
    drafts_stride, q_stride, q_row_stride, p_stride, p_row_stride, uniforms, uniforms_stride,
    sums_out, last_out, last_q_out, counts_out, rows, r, vocab, pieces,
    PIECE: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_R: tl.constexpr,
):  # fmt: skip
    """One program per BLOCK_ROWS generations and PIECE tokens; tiles [BLOCK_ROWS, BLOCK_V]."""
    g = (tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)).to(tl.int64)
    row = g < rows
    i = tl.arange(0, BLOCK_R)[None, :]
    known = tl.load(proposed + g, mask=row, other=0)[:, None]
    seq = tl.load(seq_slots + g, mask=row, other=0)
    tested = row[:, None] & (i < r)
    if windows is not None:
        tested = tested & (i + 1 < tl.load(windows + g, mask=row, other=1)[:, None])
    token = tl.load(drafts + g[:, None] * drafts_stride + i, mask=tested, other=0)
    q_at = q + g[:, None] * q_stride + i * q_row_stride + token
    p_at = p + seq[:, None] * p_stride + i * p_row_stride + token
    u = tl.load(uniforms + g[:, None] * uniforms_stride + i, mask=tested, other=1.0)
    # A placeholder, from `proposed` on, has the one-hot p of its own token.
    own = tl.load(p_at, mask=tested & (i < known), other=1.0)
    passed = tested & (u * own < tl.load(q_at, mask=tested, other=0.0))
    accepted = tl.min(tl.where(passed, BLOCK_R, i), 1)

    q_row, p_row, soft, hot = rows_at(
        accepted, g, row, seq, drafts, q, p, proposed, windows,
        drafts_stride, q_stride, q_row_stride, p_stride, p_row_stride, r,
    )  # fmt: skip
    total = tl.zeros([BLOCK_ROWS], tl.float32)
    last = tl.full([BLOCK_ROWS], -1, tl.int64)
    last_q = tl.full([BLOCK_ROWS], -1, tl.int64)
    for first in range(0, PIECE, BLOCK_V):
        v = tl.program_id(1) * PIECE + first + tl.arange(0, BLOCK_V)[None, :]
        mass, q_mass = residual(q_row, p_row, soft, hot, v, row[:, None] & (v < vocab))
        total += tl.sum(mass, 1)
        last = tl.maximum(last, tl.max(tl.where(mass > 0, v, -1), 1))
        last_q = tl.maximum(last_q, tl.max(tl.where(q_mass > 0, v, -1), 1))
    at = g * pieces + tl.program_id(1)
    tl.store(sums_out + at, total, mask=row)
    tl.store(last_out + at, last, mask=row)
    tl.store(last_q_out + at, last_q, mask=row)
    tl.store(counts_out + g, accepted + 1, mask=row & (tl.program_id(1) == 0))


@triton.jit(
    do_not_specialize=[
        "uniforms_stride", "ending_stride", "rows", "r", "pieces", "scratch", "width",
    ]
)  # fmt: skip
def recover_kernel(
    drafts, q, p, seq_slots, proposed, windows,
    drafts_stride, q_stride, q_row_stride, p_stride, p_row_stride, uniforms,
    ctx_len, valid_len, initialized, slots, positions,
    sums, lasts, last_qs, counts, tokens_out, old_out, start_out, valid_out,
    uniforms_stride, ending_stride, rows, r, vocab, pieces, scratch, width,
    PIECE: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_R: tl.constexpr,
    BLOCK_PIECES: tl.constexpr,
):  # fmt: skip
    """One program per BLOCK_ROWS generations: the recovery draw, the tokens, the counters."""
    g = (tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)).to(tl.int64)
    row = g < rows
    count = tl.load(counts + g, mask=row, other=1)
    seq = tl.load(seq_slots + g, mask=row, other=0)
    u_at = uniforms + g * uniforms_stride + (count - 1) * ending_stride
    u = tl.load(u_at, mask=row, other=1.0)
    s = tl.arange(0, BLOCK_PIECES)[None, :]
    here = row[:, None] & (s < pieces)
    at = g[:, None] * pieces + s
    part = tl.load(sums + at, mask=here, other=0.0)
    last = tl.load(lasts + at, mask=here, other=-1)
    total = tl.sum(part, 1)
    threshold = u * total
    chosen, before, last_here = choose_piece(part, last, threshold)
    found = chosen < BLOCK_PIECES
    last_q = tl.max(tl.load(last_qs + at, mask=here, other=-1), 1)
    instead = tl.where(total > 0, tl.max(last, 1), last_q)

    q_row, p_row, soft, hot = rows_at(
        count - 1, g, row, seq, drafts, q, p, proposed, windows,
        drafts_stride, q_stride, q_row_stride, p_stride, p_row_stride, r,
    )  # fmt: skip
    drawn = tl.full([BLOCK_ROWS], vocab, tl.int64)
    for first in range(0, PIECE, BLOCK_V):
        v = chosen[:, None].to(tl.int64) * PIECE + first + tl.arange(0, BLOCK_V)[None, :]
        mass, _ = residual(q_row, p_row, soft, hot, v, (row & found)[:, None] & (v < vocab))
        drawn = tl.minimum(drawn, first_beyond(mass, before, threshold, v, vocab))
        before += tl.sum(mass, 1)
    token = tl.where(found, tl.where(drawn < vocab, drawn, last_here), instead)
    i = tl.arange(0, BLOCK_R)[None, :]
    kept = row[:, None] & (i + 1 < count[:, None])
    draft = tl.load(drafts + g[:, None] * drafts_stride + i, mask=kept, other=0)
    tokens = tl.where(i + 1 == count[:, None], token[:, None], draft)
    tl.store(tokens_out + g[:, None] * (r + 1) + i, tokens, mask=row[:, None] & (i <= r))
    advance_rows(
        ctx_len, valid_len, initialized, slots, positions, old_out, start_out, valid_out,
        g, row, count, scratch, width,
    )  # fmt: skip


@triton.jit
def rows_at(
    end, g, row, seq, drafts, q, p, proposed, windows,
    drafts_stride, q_stride, q_row_stride, p_stride, p_row_stride, r,
):  # fmt: skip
    """Where q and p of position `end` [BLOCK_ROWS] start; whether p is read there; its hot token.

    At the window's last position p is 0. A placeholder's p is 1 at `hot`, -1 for none.
    """
    tested = row & (end < r)
    if windows is not None:
        tested = tested & (end + 1 < tl.load(windows + g, mask=row, other=1))
    soft = tested & (end < tl.load(proposed + g, mask=row, other=0))
    hot = tl.load(drafts + g * drafts_stride + end, mask=tested, other=-1)
    hot = tl.where(soft, -1, hot)
    q_row = q + g * q_stride + end * q_row_stride
    return q_row, p + seq * p_stride + end * p_row_stride, soft, hot


@triton.jit
def residual(q_row, p_row, soft, hot, v, inside):
    """max(q - p, 0) and q of the tokens v, [BLOCK_ROWS, BLOCK_V]; 0 outside."""
    q = tl.load(q_row[:, None] + v, mask=inside, other=0.0)
    p = tl.load(p_row[:, None] + v, mask=inside & soft[:, None], other=0.0)
    p = tl.where(v == hot[:, None], 1.0, p)
    return tl.maximum(q - p, 0.0), q
