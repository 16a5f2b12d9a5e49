"""The operations of the draft model's body, one function each (section 8b).

These are the eager twins: a fused kernel takes the place of one by having its signature
(`Operations`). No function looks at a value on the host, and no shape depends on a value.

G requests, K block rows, N heads, D = head_dim, H = hidden, W = window. The model's dtype is
float32 or bfloat16; every reduction is done in float32, and what a function returns is rounded
to the dtype once.

Public source, read for facts: TensorRT-LLM, `_torch/models/dspark/attention.py`,
`modeling_dspark.py` and `_torch/speculative/dspark.py`. It agrees with section 8b, but for the
per-head norm of the query, which it does in the query's dtype: here it is in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear, pad, silu

from draftproof.gpu.constants import ramp
from draftproof.gpu.operations import Accepted, Prompt
from draftproof.gpu.window import write_accepted, write_frames


def stream_mean(captured: Sequence[Tensor], streams: int) -> Tensor:
    """Captured hidden states, the mean of each layer's streams, layers side by side.

    captured: per captured layer [T, streams · H], streams one after another (a hyper-connected
    residual flattened). Returns [T, layers · H] of the same dtype.
    """
    means = [torch.unflatten(layer, -1, (streams, -1)).float().mean(-2) for layer in captured]
    return torch.cat(means, -1).to(captured[0].dtype)


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """x · rsqrt(mean(x²) + eps) · weight over the last dimension; None: no weight.

    x: [..., n]; weight: [n], or [stages, n] for x: [..., stages, n]. Returns x's shape and dtype.
    """
    wide = x.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    if weight is not None:
        wide = wide * weight.float()
    return wide.to(x.dtype)


def rotary_table(
    positions: int, rope_head_dim: int, base: float, device: torch.device | str
) -> Tensor:
    """Cosine and sine of position · base^(-2i / rope_head_dim), float32 [positions, half, 2].

    half = rope_head_dim / 2 pairs. Angles are computed in float64: in float32 the angle itself
    would be off by position · 2^-24.
    """
    steps = torch.arange(0, rope_head_dim, 2, dtype=torch.float64, device=device) / rope_head_dim
    angles = torch.arange(positions, dtype=torch.float64, device=device).outer(base**-steps)
    return torch.stack([angles.cos(), angles.sin()], -1).float()


def rotary(x: Tensor, positions: Tensor, table: Tensor, inverse: bool = False) -> Tensor:
    """Turn the adjacent pairs of the last 2 · half components of each row, or turn them back.

    x: [*P, D] or [*P, N, D] with positions int64 [*P], each an index of the table's first
    dimension; table: float32 [positions, half, 2]. Returns x's shape and dtype.
    """
    turns = table[positions]
    if x.ndim > positions.ndim + 1:
        turns = turns.unsqueeze(-3)
    cosine, sine = turns.unbind(-1)
    if inverse:
        sine = -sine
    passed = x.shape[-1] - 2 * table.shape[1]
    real, imaginary = torch.unflatten(x[..., passed:].float(), -1, (-1, 2)).unbind(-1)
    turned = torch.stack(
        [real * cosine - imaginary * sine, real * sine + imaginary * cosine], -1
    ).flatten(-2)
    return torch.cat([x[..., :passed], turned.to(x.dtype)], -1)


def key_value(
    x: Tensor, wkv: Tensor, kv_norm: Tensor, positions: Tensor, table: Tensor, eps: float
) -> Tensor:
    """The row that is key and value at once: rotary(rms_norm(wkv · x)).

    x: [*P, H]; wkv: [D, H]; kv_norm: [D]; positions: int64 [*P]. Returns [*P, D].
    """
    return rotary(rms_norm(linear(x, wkv), kv_norm, eps), positions, table)


def window_rows(
    context: Tensor, wkv: Tensor, kv_norm: Tensor, frames: Tensor, table: Tensor, eps: float
) -> Tensor:
    """What the windows store of context vectors at their frames, for all stages.

    context: [T, H]; wkv: [stages, D, H]; kv_norm: [stages, D]; frames: int64 [T], each the
    position + 1. Returns [T, stages, D], norm and rotary applied.
    """
    rows = torch.unflatten(linear(context, wkv.flatten(0, 1)), -1, kv_norm.shape)
    return rotary(rms_norm(rows, kv_norm, eps), frames, table)


class NormRotary(NamedTuple):
    """What turns a projected row into a key-value row (section 8b).

    weight: [stages, D], of `kv_norm`, or None; table: float32 [positions, half, 2], cosine and
    sine; eps: of the norm.
    """

    weight: Tensor | None
    table: Tensor
    eps: float


def store(
    windows: Tensor, prompt: Prompt | None, accepted: Accepted | None, norm: NormRotary
) -> None:
    """The window write of a step: projected context vectors, each normed and turned to its frame.

    windows: [S + 1, stages, W, D]; rows of `prompt`: [token rows, stages, D], of `accepted`:
    [G, R, stages, D]. Frames and masks are those of `gpu.window`.
    """

    def turned(rows: Tensor, frames: Tensor) -> Tensor:
        return rotary(rms_norm(rows, norm.weight, norm.eps), frames, norm.table)

    if prompt is not None:
        rows = turned(prompt.rows[prompt.sources], prompt.frames)
        write_frames(windows, prompt.slots, prompt.frames, rows)
    if accepted is not None:
        fresh, slots, old, counts = accepted
        frames = old.unsqueeze(1) + 1 + ramp(fresh.shape[1], old.device)
        write_accepted(windows, slots, old, counts, turned(fresh, frames))


def queries(
    x: Tensor,
    wq_a: Tensor,
    q_norm: Tensor,
    wq_b: Tensor,
    positions: Tensor,
    table: Tensor,
    head_dim: int,
    eps: float,
) -> Tensor:
    """Low-rank queries, each head divided by its root mean square, then rotary.

    x: [G, K, H]; wq_a: [R, H]; q_norm: [R]; wq_b: [N · D, R]; positions: int64 [G, K].
    Returns [G, K, N, D].
    """
    low = rms_norm(linear(x, wq_a), q_norm, eps)
    heads = torch.unflatten(linear(low, wq_b), -1, (-1, head_dim))
    return rotary(rms_norm(heads, None, eps), positions, table)


def sink_attention(
    q: Tensor, windows: Tensor, slots: Tensor, visible: Tensor, block_kv: Tensor, sink: Tensor
) -> Tensor:
    """Multi-query attention over visible window cells and all K block rows, with a sink.

    q: [G, K, N, D]; windows: [S + 1, W, D], one stage's view of the window buffer, of any dtype;
    slots: int64 [G]; visible: bool [G, W], False cells are selected away and may be NaN;
    block_kv: [G, K, D], not causal; sink: float32 [N], in the denominator only:
    softmax over [scores, sink], without the sink's column. Returns [G, K, N, D] of q's dtype.
    """
    cells = torch.where(visible.unsqueeze(-1), windows[slots].float(), 0)
    rows = torch.cat([cells, block_kv.float()], 1)
    scores = torch.einsum("gknd,gjd->gknj", q.float(), rows) * q.shape[-1] ** -0.5
    masked = pad(~visible, (0, block_kv.shape[1]))
    scores = scores.masked_fill(masked[:, None, None, :], float("-inf"))
    highest = torch.maximum(scores.amax(-1), sink)
    masses = torch.exp(scores - highest.unsqueeze(-1))
    total = masses.sum(-1) + torch.exp(sink - highest)
    out = torch.einsum("gknj,gjd->gknd", masses, rows) / total.unsqueeze(-1)
    return out.to(q.dtype)


def grouped_output(heads: Tensor, wo_a: Tensor, wo_b: Tensor) -> Tensor:
    """The heads, flattened and split in groups: wo_a of each group, then wo_b over all.

    heads: [G, K, N, D]; wo_a: [groups, o_rank, N · D / groups]; wo_b: [H, groups · o_rank].
    Returns [G, K, H].
    """
    parts = torch.unflatten(heads.flatten(-2), -1, (wo_a.shape[0], -1))
    return linear(torch.einsum("gksd,srd->gksr", parts, wo_a).flatten(-2), wo_b)


def feed_forward(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """down · (silu(gate · x) ⊙ (up · x)), dense in place of the model's mixture of experts.

    x: [..., H]; gate, up: [F, H]; down: [H, F]. Returns [..., H].
    """
    opened = silu(linear(x, gate).float()) * linear(x, up).float()
    return linear(opened.to(x.dtype), down)
