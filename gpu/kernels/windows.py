"""The window write of a step: contexts and generations, every stage, one launch (5, 7, 8b)."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from draftproof.gpu.draft_model.operations import NormRotary
from draftproof.gpu.kernels.launching import inner, launch, power_of_two, programs, tile
from draftproof.gpu.kernels.numbers import rounded
from draftproof.gpu.operations import Accepted, Prompt


def write_windows(
    windows: Tensor, prompt: Prompt | None, accepted: Accepted | None, most: int = 32
) -> None:
    """Twin of `staged`, then `write_frames` and `write_accepted` of `gpu.window`.

    windows: [S + 1, stages, W, D]; rows are those of the exact drafter, without stages: each is
    stored in every stage, with the stage's number added to its last component. Rejected rows, and
    all but the last W accepted ones, touch nothing, the scratch row included. most: (row, stage)
    pairs per program.
    """
    count, arguments = _arguments(windows, prompt, accepted)
    size = power_of_two(windows.shape[3])
    block = tile(count, most, size)
    launch(
        write_kernel,
        (programs(count, block),),
        *arguments,
        BLOCK=block,
        BLOCK_D=size,
    )


def write_normed_windows(
    windows: Tensor,
    prompt: Prompt | None,
    accepted: Accepted | None,
    norm: NormRotary,
    most: int = 4,
) -> None:
    """Twin of `gpu.draft_model.operations.store`; rejected rows as above.

    windows: [S + 1, stages, W, D]; rows: projected context vectors, with stages, of any float
    dtype: rounded to it after the norm, as in the twin; rotary turns each to its frame. The mean
    of squares is summed in another order than the twin's.
    """
    count, arguments = _arguments(windows, prompt, accepted)
    inner(norm.weight)
    half, size = norm.table.shape[1], windows.shape[3]
    block = tile(count, most, power_of_two(size))
    launch(
        write_normed_kernel,
        (programs(count, block),),
        *(*arguments, norm.weight, norm.table, norm.eps),
        HALF=half,
        BLOCK=block,
        BLOCK_HALF=power_of_two(half),
        BLOCK_PASSED=power_of_two(size - 2 * half),
    )


def _arguments(
    windows: Tensor, prompt: Prompt | None, accepted: Accepted | None
) -> tuple[int, list[Any]]:
    """The number of (row, stage) pairs, and what both kernels take first."""
    _, stages, width, size = windows.shape
    inner(windows, *(part.rows for part in (prompt, accepted) if part))
    arguments: list[Any] = [windows, *windows.stride()[:3]]
    prompts = generations = per_generation = 0
    if prompt:
        prompts = len(prompt.sources)
        arguments += [*prompt, *_strides(prompt.rows, 1)]
    else:
        arguments += [None] * 4 + [0, 0]
    if accepted:
        generations, per_generation = accepted.rows.shape[:2]
        arguments += [*accepted, *_strides(accepted.rows, 2)]
    else:
        arguments += [None] * 4 + [0, 0, 0]
    sizes = [prompts, generations * per_generation, per_generation, stages, width, size]
    return (prompts + generations * per_generation) * stages, arguments + sizes


def _strides(rows: Tensor, leading: int) -> list[int]:
    """Of the leading dimensions and of the stage; 0 if every stage has the same row."""
    strides = list(rows.stride()[:-1])
    return strides if len(strides) > leading else [*strides, 0]


SIZES = ("prompts", "generated", "r_rows", "width")


@triton.jit(do_not_specialize=SIZES)
def write_kernel(
    windows, slot_stride, stage_stride, column_stride,
    prompt_rows, sources, prompt_slots, frames, prompt_stride, prompt_stage_stride,
    accepted_rows, slots, old, counts, g_stride, i_stride, accepted_stage_stride,
    prompts, generated, r_rows, stages, width, size,
    BLOCK: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """One program per BLOCK pairs (row, stage), prompt rows first; tiles [BLOCK, BLOCK_D]."""
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, stage = pair // stages, pair % stages
    prompt_at, accepted_at, from_prompt, from_accepted, slot, frame = sources_of(
        row, stage, sources, prompt_slots, frames, prompt_stride, prompt_stage_stride,
        slots, old, counts, g_stride, i_stride, accepted_stage_stride,
        prompts, generated, r_rows, width,
    )  # fmt: skip
    d = tl.arange(0, BLOCK_D)[None, :]
    x = load_rows(
        prompt_rows, accepted_rows, prompt_at, accepted_at, from_prompt, from_accepted, d, d < size
    )
    x += tl.where(d == size - 1, stage[:, None], 0).to(tl.float32)
    target = slot * slot_stride + stage * stage_stride + frame % width * column_stride
    stored = (from_prompt | from_accepted)[:, None] & (d < size)
    tl.store(windows + target[:, None] + d, x, mask=stored)


@triton.jit(do_not_specialize=(*SIZES, "eps"))
def write_normed_kernel(
    windows, slot_stride, stage_stride, column_stride,
    prompt_rows, sources, prompt_slots, frames, prompt_stride, prompt_stage_stride,
    accepted_rows, slots, old, counts, g_stride, i_stride, accepted_stage_stride,
    prompts, generated, r_rows, stages, width, size, weight, table, eps,
    HALF: tl.constexpr, BLOCK: tl.constexpr, BLOCK_HALF: tl.constexpr, BLOCK_PASSED: tl.constexpr,
):  # fmt: skip
    """As `write_kernel`; three tiles per row: what rotary passes, and both sides of its pairs."""
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, stage = pair // stages, pair % stages
    prompt_at, accepted_at, from_prompt, from_accepted, slot, frame = sources_of(
        row, stage, sources, prompt_slots, frames, prompt_stride, prompt_stage_stride,
        slots, old, counts, g_stride, i_stride, accepted_stage_stride,
        prompts, generated, r_rows, width,
    )  # fmt: skip
    stored = (from_prompt | from_accepted)[:, None]
    d = tl.arange(0, BLOCK_PASSED)[None, :]
    j = tl.arange(0, BLOCK_HALF)[None, :]
    left, right = size - 2 * HALF + 2 * j, size - 2 * HALF + 2 * j + 1
    passes, turns = d < size - 2 * HALF, j < HALF
    x = load_rows(
        prompt_rows, accepted_rows, prompt_at, accepted_at, from_prompt, from_accepted, d, passes
    )
    a = load_rows(
        prompt_rows, accepted_rows, prompt_at, accepted_at, from_prompt, from_accepted, left, turns
    )
    b = load_rows(
        prompt_rows, accepted_rows, prompt_at, accepted_at, from_prompt, from_accepted, right, turns
    )
    square = tl.sum(x * x, 1) + tl.sum(a * a + b * b, 1)
    scale = tl.rsqrt(square / size + eps)[:, None]
    dtype = accepted_rows.dtype.element_ty if prompt_rows is None else prompt_rows.dtype.element_ty
    x = normed(x, scale, weight, stage[:, None] * size + d, passes, dtype)
    a = normed(a, scale, weight, stage[:, None] * size + left, turns, dtype)
    b = normed(b, scale, weight, stage[:, None] * size + right, turns, dtype)
    turn = table + (frame[:, None] * HALF + j) * 2
    cosine = tl.load(turn, mask=stored & turns, other=0.0)
    sine = tl.load(turn + 1, mask=stored & turns, other=0.0)
    cell = slot * slot_stride + stage * stage_stride + frame % width * column_stride
    cell = windows + cell[:, None]
    tl.store(cell + d, x, mask=stored & passes)
    tl.store(cell + left, rounded(a * cosine - b * sine, dtype), mask=stored & turns)
    tl.store(cell + right, rounded(a * sine + b * cosine, dtype), mask=stored & turns)


@triton.jit
def sources_of(
    row, stage, sources, prompt_slots, frames, prompt_stride, prompt_stage_stride,
    slots, old, counts, g_stride, i_stride, accepted_stage_stride,
    prompts, generated, r_rows, width,
):  # fmt: skip
    """Where each of the rows [BLOCK] comes from, whether at all, and its slot and frame."""
    from_prompt = row < prompts
    i = row - prompts
    from_accepted = (i >= 0) & (i < generated)
    prompt_at, accepted_at = row.to(tl.int64), row.to(tl.int64)
    slot, frame = row.to(tl.int64), row.to(tl.int64)
    if sources is not None:
        source = tl.load(sources + row, mask=from_prompt, other=0)
        prompt_at = source * prompt_stride + stage * prompt_stage_stride
        slot = tl.load(prompt_slots + row, mask=from_prompt, other=0)
        frame = tl.load(frames + row, mask=from_prompt, other=0)
    if slots is not None:
        g, i = i // r_rows, i % r_rows
        count = tl.load(counts + g, mask=from_accepted, other=0)
        accepted_at = g.to(tl.int64) * g_stride + i * i_stride + stage * accepted_stage_stride
        own = tl.load(slots + g, mask=from_accepted, other=0)
        at = tl.load(old + g, mask=from_accepted, other=0) + 1 + i
        slot = tl.where(from_accepted, own, slot)
        frame = tl.where(from_accepted, at, frame)
        from_accepted = from_accepted & (i < count) & (i >= count - width)
    return prompt_at, accepted_at, from_prompt, from_accepted, slot, frame


@triton.jit
def load_rows(
    prompt_rows, accepted_rows, prompt_at, accepted_at, from_prompt, from_accepted, d, inside
):  # fmt: skip
    """Components d [1, BLOCK_D] of the rows [BLOCK], in float32; 0 where nothing is stored."""
    if accepted_rows is None:
        at = prompt_rows + prompt_at[:, None] + d
        x = tl.load(at, mask=from_prompt[:, None] & inside, other=0.0).to(tl.float32)
    else:
        at = accepted_rows + accepted_at[:, None] + d
        x = tl.load(at, mask=from_accepted[:, None] & inside, other=0.0).to(tl.float32)
        if prompt_rows is not None:
            at = prompt_rows + prompt_at[:, None] + d
            y = tl.load(at, mask=from_prompt[:, None] & inside, other=0.0).to(tl.float32)
            x = tl.where(from_prompt[:, None], y, x)
    return x


@triton.jit
def normed(x, scale, weight, place, inside, dtype):
    """x · scale · weight, rounded to the rows' dtype; back in float32."""
    x = x * scale
    if weight is not None:
        x = x * tl.load(weight + place, mask=inside, other=0.0).to(tl.float32)
    return rounded(x, dtype).to(tl.float32)
