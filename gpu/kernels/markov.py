"""The Markov chain for all K positions: bias, token, next position (section 8b).

Each position needs the token before it, so a chain is K times two launches, or three where tokens
are drawn: over pieces of the vocabulary, reading W2 once; over the same pieces again, to divide by
the softmax's total; over rows, to make a token of what the pieces say. One CUDA graph holds it.
The greedy chain also comes in K + 1 launches, in which the programs of a position each find the
token before it in what the pieces of the last one have said. Which of the two serves is measured on
the device (gpu/kernels/fastest.py); docs/kernels.md says what speaks for each.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.gpu.draft_model.heads import Drawing
from draftproof.gpu.kernels.drawing import choose_piece, first_beyond
from draftproof.gpu.kernels.launching import inner, launch, power_of_two, programs, tile
from draftproof.gpu.kernels.launching import pieces as cut
from draftproof.gpu.kernels.numbers import LOWEST, dot, rounded

PIECES = 264
"""Programs per position when compiled: two for each of the 132 processors of an H200."""


def markov_chain(
    logits: Tensor,
    bonus: Tensor,
    w1: Tensor,
    w2: Tensor,
    most_columns: int = 128,
    most_pieces: int = PIECES,
    joined: bool = False,
) -> Tensor:
    """Twin of `gpu.draft_model.heads.markov_chain`; arguments and result as there.

    Dot products are summed in another order than the twin's. most_columns: tokens per tile;
    joined: in K + 1 launches, not in 2 K.
    """
    chain, block = _Chain(logits, bonus, w1, w2, (most_columns, most_pieces)), logits.shape[1]
    for k in range(block):
        chain.add_bias(k, joined=joined and k > 0)
        if not joined or k == block - 1:
            chain.take_best(k)
    return chain.tokens[:, 1:]


def markov_chain_sampled(
    logits: Tensor,
    bonus: Tensor,
    w1: Tensor,
    w2: Tensor,
    drawing: Drawing,
    most_columns: int = 128,
    most_pieces: int = PIECES,
) -> tuple[Tensor, Tensor]:
    """Twin of `gpu.draft_model.heads.markov_chain_sampled`; arguments and results as there.

    Dot products, and sums of probabilities, are taken in another order than the twin's.
    """
    chain = _Chain(logits, bonus, w1, w2, (most_columns, most_pieces))
    laws = torch.empty(logits.shape, dtype=torch.float32, device=logits.device)
    biased = torch.empty_like(laws[:, 0], memory_format=torch.contiguous_format)
    for k in range(logits.shape[1]):
        chain.add_bias(k, drawing, biased)
        chain.make_law(k, drawing.greedy, biased, laws)
        chain.draw(k, drawing.uniforms, laws)
    return chain.tokens[:, 1:], laws


class _Chain:
    """The launches of a chain, and what one hands to the next.

    tokens: int64 [G, K + 1], the bonus first; of each piece of the vocabulary: best, for even and
    for odd positions, since a joined launch reads those of the last one, the best logit and its
    first token, float32 and int64 [G, pieces]; totals: its share of the softmax's total; masses
    and lasts: its probability, and its last token that has any.
    """

    def __init__(
        self, logits: Tensor, bonus: Tensor, w1: Tensor, w2: Tensor, most: tuple[int, int]
    ) -> None:
        inner(logits, w1, w2)
        (rows, block, vocab), device = logits.shape, logits.device
        self.weights = [logits, *logits.stride()[:2], w1, w1.stride(0), w2, w2.stride(0)]
        self.tokens = torch.empty(rows, block + 1, dtype=torch.int64, device=device)
        self.tokens[:, 0] = bonus
        self.rank, self.rows = w2.shape[1], min(max(power_of_two(rows), 16), 64)
        self.rank_tile = max(tile(self.rank, 64), 16)
        self.columns = max(tile(vocab, most[0], max(self.rows, self.rank_tile)), 16)
        piece, self.pieces = cut(vocab, most[1], self.columns)
        self.sizes = [rows, block, vocab, self.pieces]
        self.constants = {"PIECE": piece, "BLOCK_V": self.columns}
        floats = torch.empty(4, rows, self.pieces, device=device)
        ints = torch.empty(3, rows, self.pieces, dtype=torch.int64, device=device)
        self.best = (floats[0], ints[0]), (floats[1], ints[1])
        self.totals, self.masses, self.lasts = floats[2], floats[3], ints[2]

    def add_bias(
        self,
        k: int,
        drawing: Drawing | None = None,
        biased: Tensor | None = None,
        joined: bool = False,
    ) -> None:
        """What the pieces say about position k; biased: [G, V], where its logits go.

        joined: the token before it has not been taken yet.
        """
        greedy, temperature = (None, None) if drawing is None else drawing[:2]
        launch(
            bias_kernel,
            (programs(self.sizes[0], self.rows), self.pieces),
            *(*self.weights, self.tokens, greedy, temperature, biased),
            *(self.best[1 - k % 2] if joined else (None, None)),
            *(*self.best[k % 2], self.totals, k, *self.sizes),
            RANK=self.rank,
            BLOCK_ROWS=self.rows,
            BLOCK_RANK=self.rank_tile,
            BLOCK_PIECES=min(power_of_two(self.pieces), 32),
            warps=4 if self.rows == 16 else 8,
            **self.constants,
        )

    def take_best(self, k: int) -> None:
        """The token of position k by argmax."""
        rows = tile(self.sizes[0], 1)
        launch(
            best_kernel,
            (programs(self.sizes[0], rows),),
            *(*self.best[k % 2], self.tokens, k, *self.sizes[:2], self.pieces),
            BLOCK_ROWS=rows,
            BLOCK_PIECES=power_of_two(self.pieces),
            warps=1,
        )

    def make_law(self, k: int, greedy: Tensor, biased: Tensor, laws: Tensor) -> None:
        """Probabilities of position k from its biased logits."""
        self._by_row(
            law_kernel,
            (self.pieces,),
            *(biased, laws, greedy, *self.best[k % 2], self.totals),
            *(self.masses, self.lasts, k),
        )

    def draw(self, k: int, uniforms: Tensor, laws: Tensor) -> None:
        """The token of position k by its number."""
        arguments = laws, uniforms, uniforms.stride(0), self.masses, self.lasts, self.tokens, k
        self._by_row(draw_kernel, (), *arguments)

    def _by_row(self, kernel: Any, grid: tuple[int, ...], *arguments: Any) -> None:
        rows = tile(self.sizes[0], 1, self.columns)
        launch(
            kernel,
            (programs(self.sizes[0], rows), *grid),
            *(*arguments, *self.sizes),
            BLOCK_ROWS=rows,
            BLOCK_PIECES=power_of_two(self.pieces),
            **self.constants,
        )


@triton.jit(do_not_specialize=["rows", "k", "pieces"])
def bias_kernel(
    logits, g_stride, k_stride, w1, w1_stride, w2, w2_stride, tokens, greedy, temperature, biased,
    tops, firsts, tops_out, firsts_out, totals_out, k, rows, block, vocab, pieces,
    RANK: tl.constexpr, PIECE: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_RANK: tl.constexpr, BLOCK_PIECES: tl.constexpr,
):  # fmt: skip
    """One program per BLOCK_ROWS rows and PIECE tokens; tiles [BLOCK_ROWS, BLOCK_V]."""
    g = (tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)).to(tl.int64)
    row = g < rows
    before = tokens + g * (block + 1) + k
    if tops is None:
        prev = tl.load(before, mask=row, other=0)
    else:
        prev = first_of_best(tops, firsts, g, row, pieces, BLOCK_ROWS, BLOCK_PIECES)
        tl.store(before, prev, mask=row & (tl.program_id(1) == 0))
    if biased is not None:
        cold = tl.load(greedy + g, mask=row, other=1) != 0
        heat = tl.where(cold, 1.0, tl.load(temperature + g, mask=row, other=1.0))
    top = tl.full([BLOCK_ROWS], LOWEST, tl.float32)
    first_top = tl.zeros([BLOCK_ROWS], tl.int64) + tl.program_id(1) * PIECE
    total = tl.zeros([BLOCK_ROWS], tl.float32)
    for first in range(0, PIECE, BLOCK_V):
        v = (tl.program_id(1) * PIECE + first + tl.arange(0, BLOCK_V)).to(tl.int64)
        inside = row[:, None] & (v < vocab)[None, :]
        bias = tl.zeros([BLOCK_ROWS, BLOCK_V], tl.float32)
        for start in range(0, RANK, BLOCK_RANK):
            m = start + tl.arange(0, BLOCK_RANK)
            at = w1 + prev[:, None] * w1_stride + m[None, :]
            given = tl.load(at, mask=row[:, None] & (m < RANK)[None, :], other=0.0)
            at = w2 + v[:, None] * w2_stride + m[None, :]
            weight = tl.load(at, mask=(v < vocab)[:, None] & (m < RANK)[None, :], other=0.0)
            bias = dot(given, tl.trans(weight), bias)
        at = logits + g[:, None] * g_stride + k * k_stride + v[None, :]
        x = tl.load(at, mask=inside, other=LOWEST)
        x += rounded(bias, w2.dtype.element_ty).to(tl.float32)
        if biased is not None:
            x = x / heat[:, None]
            tl.store(biased + g[:, None] * vocab + v[None, :], x, mask=inside)
        best = tl.max(x, 1)
        index = tl.min(tl.where(x == best[:, None], v[None, :], vocab), 1)
        first_top = tl.where(best > top, index, first_top)  # not if equal: the first one wins
        if biased is not None:
            higher = tl.maximum(top, best)
            share = tl.where(inside, tl.exp(x - higher[:, None]), 0.0)
            total = total * tl.exp(top - higher) + tl.sum(share, 1)
        top = tl.maximum(top, best)
    at = g * pieces + tl.program_id(1)
    tl.store(tops_out + at, top, mask=row)
    tl.store(firsts_out + at, first_top, mask=row)
    if biased is not None:
        tl.store(totals_out + at, total, mask=row)


@triton.jit(do_not_specialize=["rows", "k", "pieces"])
def best_kernel(
    tops, firsts, tokens_out, k, rows, block, pieces,
    BLOCK_ROWS: tl.constexpr, BLOCK_PIECES: tl.constexpr,
):  # fmt: skip
    """One program per BLOCK_ROWS rows; tiles [BLOCK_ROWS, BLOCK_PIECES]."""
    g = (tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)).to(tl.int64)
    row = g < rows
    _, _, token = best_of_pieces(tops, firsts, g, row, pieces, BLOCK_PIECES)
    tl.store(tokens_out + g * (block + 1) + k + 1, token, mask=row)


@triton.jit(do_not_specialize=["rows", "k", "pieces"])
def law_kernel(
    biased, laws_out, greedy, tops, firsts, totals, masses_out, lasts_out,
    k, rows, block, vocab, pieces,
    PIECE: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_PIECES: tl.constexpr,
):  # fmt: skip
    """One program per BLOCK_ROWS rows and PIECE tokens: softmax, or one-hot in greedy rows.

    Not in place: threads that hold copies of an element would read what one of them has written.
    """
    g = (tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)).to(tl.int64)
    row = g < rows
    cold = tl.load(greedy + g, mask=row, other=1) != 0
    top, highest, token = best_of_pieces(tops, firsts, g, row, pieces, BLOCK_PIECES)
    s = tl.arange(0, BLOCK_PIECES)[None, :]
    here = row[:, None] & (s < pieces)
    total = tl.load(totals + g[:, None] * pieces + s, mask=here, other=0.0)
    total = tl.sum(total * tl.exp(top - highest[:, None]), 1)
    total = tl.where(row, total, 1.0)
    mass = tl.zeros([BLOCK_ROWS], tl.float32)
    last = tl.full([BLOCK_ROWS], -1, tl.int64)
    for first in range(0, PIECE, BLOCK_V):
        v = (tl.program_id(1) * PIECE + first + tl.arange(0, BLOCK_V)).to(tl.int64)[None, :]
        inside = row[:, None] & (v < vocab)
        x = tl.load(biased + g[:, None] * vocab + v, mask=inside, other=LOWEST)
        soft = tl.exp(x - highest[:, None]) / total[:, None]
        law = tl.where(cold[:, None], tl.where(v == token[:, None], 1.0, 0.0), soft)
        law = tl.where(inside, law, 0.0)
        tl.store(laws_out + (g[:, None] * block + k) * vocab + v, law, mask=inside)
        mass += tl.sum(law, 1)
        last = tl.maximum(last, tl.max(tl.where(law > 0, v, -1), 1))
    at = g * pieces + tl.program_id(1)
    tl.store(masses_out + at, mass, mask=row)
    tl.store(lasts_out + at, last, mask=row)


@triton.jit(do_not_specialize=["rows", "k", "pieces"])
def draw_kernel(
    laws, uniforms, uniforms_stride, masses, lasts, tokens_out, k, rows, block, vocab, pieces,
    PIECE: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_PIECES: tl.constexpr,
):  # fmt: skip
    """One program per BLOCK_ROWS rows: twin of `gpu.rejection.draw`."""
    g = (tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)).to(tl.int64)
    row = g < rows
    s = tl.arange(0, BLOCK_PIECES)[None, :]
    here, at = row[:, None] & (s < pieces), g[:, None] * pieces + s
    part = tl.load(masses + at, mask=here, other=0.0)
    last = tl.load(lasts + at, mask=here, other=-1)
    u = tl.load(uniforms + g * uniforms_stride + k, mask=row, other=1.0)
    threshold = u * tl.sum(part, 1)
    chosen, before, last_here = choose_piece(part, last, threshold)
    found = chosen < BLOCK_PIECES
    drawn = tl.full([BLOCK_ROWS], vocab, tl.int64)
    for first in range(0, PIECE, BLOCK_V):
        v = chosen[:, None].to(tl.int64) * PIECE + first + tl.arange(0, BLOCK_V)[None, :]
        law = laws + (g[:, None] * block + k) * vocab + v
        law = tl.load(law, mask=(row & found)[:, None] & (v < vocab), other=0.0)
        drawn = tl.minimum(drawn, first_beyond(law, before, threshold, v, vocab))
        before += tl.sum(law, 1)
    token = tl.where(found, tl.where(drawn < vocab, drawn, last_here), tl.max(last, 1))
    tl.store(tokens_out + g * (block + 1) + k + 1, token, mask=row)


@triton.jit
def best_of_pieces(tops, firsts, g, row, pieces, BLOCK_PIECES: tl.constexpr):
    """Best logits [rows, BLOCK_PIECES], the best of all [rows], and the first token that has it."""
    s = tl.arange(0, BLOCK_PIECES)[None, :]
    here, at = row[:, None] & (s < pieces), g[:, None] * pieces + s
    top = tl.load(tops + at, mask=here, other=LOWEST)
    index = tl.load(firsts + at, mask=here, other=0)
    highest = tl.max(top, 1)
    best = here & (top == highest[:, None])
    return top, highest, tl.min(tl.where(best, index, 0x7FFFFFFF), 1)


@triton.jit
def first_of_best(
    tops, firsts, g, row, pieces, BLOCK_ROWS: tl.constexpr, BLOCK_PIECES: tl.constexpr
):
    """The first token with the best logit, int64 [BLOCK_ROWS], BLOCK_PIECES pieces at a time."""
    highest = tl.full([BLOCK_ROWS], LOWEST, tl.float32)
    token = tl.zeros([BLOCK_ROWS], tl.int64)
    for start in range(0, pieces, BLOCK_PIECES):
        s = start + tl.arange(0, BLOCK_PIECES)[None, :]
        here, at = row[:, None] & (s < pieces), g[:, None] * pieces + s
        top = tl.load(tops + at, mask=here, other=LOWEST)
        index = tl.load(firsts + at, mask=here, other=0)
        best = tl.max(top, 1)
        first = tl.min(tl.where(here & (top == best[:, None]), index, 0x7FFFFFFF), 1)
        token = tl.where(best > highest, first, token)  # not if equal: the first one wins
        highest = tl.maximum(highest, best)
    return token
