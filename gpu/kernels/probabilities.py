"""Rows of draft probabilities: one-hot, the exact drafter's law, a narrower vocabulary (6, 19)."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from draftproof.gpu.exact_drafter import law_masses
from draftproof.gpu.kernels.launching import inner, launch, programs, tile


def write_one_hot(
    probs: Tensor,
    seq_slots: Tensor,
    tokens: Tensor,
    greedy: Tensor | None = None,
    most: int = 1,
    most_columns: int = 4096,
) -> None:
    """Twin of `probs[seq_slots] = one_hot(tokens)`; with `greedy`, of the law around the tokens.

    probs: float32 [S + 1, K, V]; seq_slots: int64 [N]; tokens: int64 [N, K]; greedy: bool [N],
    rows that stay one-hot, where the others get `gpu.exact_drafter.draft_law`; None: all do.
    most, most_columns: rows (n, k) and tokens per program.
    """
    inner(probs)
    (count, block), vocab = tokens.shape, probs.shape[2]
    rows = tile(count * block, most)
    columns = tile(vocab, most_columns, rows)
    masses = None if greedy is None else law_masses(probs.device)
    launch(
        one_hot_kernel,
        (programs(count * block, rows), programs(vocab, columns)),
        *(probs, *probs.stride()[:2], seq_slots, tokens, *tokens.stride(), greedy, masses),
        *(count * block, block, vocab),
        MASSES=4,
        BLOCK_ROWS=rows,
        BLOCK_V=columns,
    )


def scatter_vocabulary(
    probs: Tensor,
    seq_slots: Tensor,
    narrow: Tensor,
    inverse: Tensor,
    most: int = 1,
    most_columns: int = 4096,
) -> None:
    """Twin of `gpu.vocabulary.scatter_vocabulary`.

    probs: float32 [S + 1, K, V]; seq_slots: int64 [N]; narrow: float32 [N, K, draft V]; inverse:
    int64 [V], of `gpu.vocabulary.inverse_map`: each token is gathered, so that every one is
    written once, in order, and no program waits for another's zeros.
    """
    inner(probs, narrow)
    (count, block, _), vocab = narrow.shape, probs.shape[2]
    rows = tile(count * block, most)
    columns = tile(vocab, most_columns, rows)
    launch(
        scatter_kernel,
        (programs(count * block, rows), programs(vocab, columns)),
        *(probs, *probs.stride()[:2], seq_slots, narrow, *narrow.stride()[:2], inverse),
        *(count * block, block, vocab),
        BLOCK_ROWS=rows,
        BLOCK_V=columns,
    )


@triton.jit(do_not_specialize=["rows", "block"])
def one_hot_kernel(
    probs, slot_stride, row_stride, seq_slots, tokens, n_stride, k_stride, greedy, masses,
    rows, block, vocab,
    MASSES: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """One program per BLOCK_ROWS rows (n, k) and BLOCK_V tokens."""
    at = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    row, n, k = at < rows, at // block, at % block
    v = tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V)[None, :]
    slot = tl.load(seq_slots + n, mask=row, other=0)
    token = tl.load(tokens + n * n_stride + k * k_stride, mask=row, other=0)[:, None]
    p = tl.where(v == token, 1.0, 0.0)
    if greedy is not None:
        soft = tl.load(greedy + n, mask=row, other=1) == 0
        law = tl.zeros_like(p)
        for j in range(MASSES):  # added where the vocabulary is so small that they meet
            law += tl.where(v == (token + j) % vocab, tl.load(masses + j), 0.0)
        p = tl.where(soft[:, None], law, p)
    out = probs + slot * slot_stride + k * row_stride
    tl.store(out[:, None] + v, p, mask=row[:, None] & (v < vocab))


@triton.jit(do_not_specialize=["rows", "block"])
def scatter_kernel(
    probs, slot_stride, row_stride, seq_slots, narrow, n_stride, k_stride, inverse,
    rows, block, vocab, BLOCK_ROWS: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """One program per BLOCK_ROWS rows (n, k) and BLOCK_V tokens of the full vocabulary."""
    at = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    row, n, k = at < rows, at // block, at % block
    v = tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V)[None, :]
    inside = row[:, None] & (v < vocab)
    slot = tl.load(seq_slots + n, mask=row, other=0)
    source = tl.load(inverse + v, mask=v < vocab, other=-1)
    held = narrow + (n.to(tl.int64) * n_stride + k * k_stride)[:, None]
    p = tl.load(held + source, mask=inside & (source >= 0), other=0.0)
    out = probs + slot * slot_stride + k * row_stride
    tl.store(out[:, None] + v, p, mask=inside)
