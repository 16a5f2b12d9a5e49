"""The exact drafter of sections 8a and 19: context sum, chain and confidence in one launch."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from draftproof.gpu.exact_drafter import DRAFT_MASSES, confidence_table, law_masses
from draftproof.gpu.kernels.launching import inner, launch, power_of_two, programs, tile
from draftproof.gpu.operations import Verified


class Confidences(NamedTuple):
    """Where confidences go: logits float32 [S + 2, K], stamps int64 [S + 2], draft_seq int64 []."""

    logits: Tensor
    stamps: Tensor
    draft_seq: Tensor


class Draws(NamedTuple):
    """How a block is sampled: greedy bool [G], rows that are not; uniforms float32 [G, K]."""

    greedy: Tensor
    uniforms: Tensor


def draft(
    windows: Tensor,
    slots: Tensor,
    verified: Verified,
    confidences: Confidences,
    vocab: int,
    draws: Draws | None = None,
    most: int = 1,
) -> tuple[Tensor, Tensor]:
    """Twin of `context_sum`, `draft_argmax` or `draft_sampled`, and `confidence`.

    windows: [S + 1, stages, W, D]; slots: int64 [G]; the bonus of generation g is the last of
    its verified tokens. Returns drafts and the formula's own tokens, around which the draft
    probabilities lie, int64 [G, K] each; without draws they are the same. most: rows per program.
    """
    inner(windows, confidences.logits)
    (rows,), (_, stages, width, size) = slots.shape, windows.shape
    block, device = confidences.logits.shape[1], windows.device
    drafts = torch.empty(rows, block, dtype=torch.int64, device=device)
    best = drafts if draws is None else torch.empty_like(drafts)
    greedy, uniforms = (None, None) if draws is None else draws
    uniforms_stride = 0 if uniforms is None else uniforms.stride(0)
    columns, components = power_of_two(width), power_of_two(size)
    per_program = tile(rows, most, columns * components)
    launch(
        draft_kernel,
        (programs(rows, per_program),),
        *(windows, *windows.stride()[:3], slots, *verified[:2], *verified[3:]),
        *(*confidences, confidence_table(device), greedy, uniforms, law_masses(device)),
        *(drafts, best, rows, verified.tokens.stride(0), uniforms_stride),
        *(width, size, vocab),
        STAGES=stages,
        K=block,
        TABLE=len(confidence_table(device)),
        MASSES=len(DRAFT_MASSES),
        BLOCK_ROWS=per_program,
        BLOCK_W=columns,
        BLOCK_D=components,
    )
    return drafts, best


@triton.jit(do_not_specialize=["rows", "tokens_stride", "uniforms_stride", "width"])
def draft_kernel(
    windows, slot_stride, stage_stride, column_stride, slots, tokens, counts, starts, valids,
    logits_out, stamps_out, draft_seq, table, greedy, uniforms, masses,
    drafts_out, best_out, rows, tokens_stride, uniforms_stride, width, size, vocab,
    STAGES: tl.constexpr, K: tl.constexpr, TABLE: tl.constexpr, MASSES: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_W: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """One program per BLOCK_ROWS generations; tiles [BLOCK_ROWS, BLOCK_W, BLOCK_D] of windows."""
    g = (tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)).to(tl.int64)
    row = g < rows
    slot = tl.load(slots + g, mask=row, other=0)
    start = tl.load(starts + g, mask=row, other=0)
    valid = tl.load(valids + g, mask=row, other=0)
    bonus = tl.load(counts + g, mask=row, other=1) - 1
    token = tl.load(tokens + g * tokens_stride + bonus, mask=row, other=0)
    total = context_sum(
        windows + slot * slot_stride, stage_stride, column_stride, start, valid,
        width, size, STAGES, BLOCK_ROWS, BLOCK_W, BLOCK_D,
    )  # fmt: skip
    tl.store(stamps_out + slot, tl.load(draft_seq), mask=row)
    for k in range(K):
        index = (total + 13 * token + k) % TABLE
        tl.store(logits_out + slot * K + k, tl.load(table + index), mask=row)
        token = (total + start + 31 * token + 7 * k) % vocab
        tl.store(best_out + g * K + k, token, mask=row)
        if uniforms is not None:
            u = tl.load(uniforms + g * uniforms_stride + k, mask=row, other=1.0)
            drawn = draw_law(token, u, masses, vocab, MASSES)
            token = tl.where(tl.load(greedy + g, mask=row, other=1) != 0, token, drawn)
            tl.store(drafts_out + g * K + k, token, mask=row)


@triton.jit
def context_sum(
    windows, stage_stride, column_stride, start, valid, width, size,
    STAGES: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_W: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The double sum over stages and visible frames, int64 [BLOCK_ROWS]; others are not read."""
    c = tl.arange(0, BLOCK_W)[None, :]
    d = tl.arange(0, BLOCK_D)[None, None, :]
    age = (start[:, None] + width - c) % width
    visible = (c < width) & (age < valid[:, None])
    weight = tl.where(visible, (start[:, None] - age) % 251 + 1, 0)
    inside = visible[:, :, None] & (d < size)
    total = tl.zeros([BLOCK_ROWS], tl.int64)
    for stage in range(STAGES):
        cell = windows[:, None, None] + stage * stage_stride + c[:, :, None] * column_stride + d
        component = tl.load(cell, mask=inside, other=0.0).to(tl.float32).to(tl.int32)
        tag = tl.sum(component * (2 * d + 1), 2)
        total += tl.sum(tag * weight, 1)
    return total


@triton.jit
def draw_law(best, u, masses, vocab, MASSES: tl.constexpr):
    """Twin of `gpu.rejection.draw` on the law around `best` [BLOCK_ROWS], which adds up to 1.

    Only its MASSES tokens matter, in the order of the vocabulary: the first whose running sum
    exceeds u, else the last.
    """
    j = tl.arange(0, MASSES)[None, :]
    mass = tl.load(masses + j)
    token = (best[:, None] + j) % vocab
    before = token[:, None, :] <= token[:, :, None]
    running = tl.sum(tl.where(before, mass[:, None, :], 0.0), 2)
    first = tl.min(tl.where(running > u[:, None], token, vocab), 1)
    return tl.where(first < vocab, first, tl.max(token, 1))
