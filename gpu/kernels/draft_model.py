"""The draft model's functions that have Triton twins (section 8b).

`OPERATIONS` is what `gpu.draft_model.model.DraftModel` takes. Matrix products stay torch's.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import linear

from draftproof.gpu.constants import ramp
from draftproof.gpu.draft_model.model import Operations
from draftproof.gpu.draft_model.operations import NormRotary, rms_norm
from draftproof.gpu.kernels.attention import sink_attention
from draftproof.gpu.kernels.fastest import Fastest
from draftproof.gpu.kernels.markov import markov_chain, markov_chain_sampled
from draftproof.gpu.kernels.windows import write_normed_windows
from draftproof.gpu.operations import Prompt


def norm_rotary(
    rows: Tensor, weight: Tensor | None, positions: Tensor, table: Tensor, eps: float
) -> Tensor:
    """Twin of `rotary(rms_norm(rows, weight, eps), positions, table)`, in one launch.

    rows: [T, N, D]; weight: [N, D] or None; positions: int64 [T]; table: float32 [positions,
    half, 2]. Returns [T, N, D]. It is a window write with a window of one column for each row.
    """
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    each = ramp(len(rows), rows.device)
    cells = Prompt(rows, each, each, positions)
    write_normed_windows(out.unsqueeze(2), cells, None, NormRotary(weight, table, eps))
    return out


def window_rows(
    context: Tensor, wkv: Tensor, kv_norm: Tensor, frames: Tensor, table: Tensor, eps: float
) -> Tensor:
    """Twin of `gpu.draft_model.operations.window_rows`."""
    rows = torch.unflatten(linear(context, wkv.flatten(0, 1)), -1, kv_norm.shape)
    return norm_rotary(rows, kv_norm, frames, table, eps)


def key_value(
    x: Tensor, wkv: Tensor, kv_norm: Tensor, positions: Tensor, table: Tensor, eps: float
) -> Tensor:
    """Twin of `gpu.draft_model.operations.key_value`."""
    rows = linear(x, wkv)
    flat = rows.view(-1, 1, rows.shape[-1])
    turned = norm_rotary(flat, kv_norm.unsqueeze(0), positions.reshape(-1), table, eps)
    return turned.view_as(rows)


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
    """Twin of `gpu.draft_model.operations.queries`."""
    low = rms_norm(linear(x, wq_a), q_norm, eps)
    heads = torch.unflatten(linear(low, wq_b), -1, (-1, head_dim))
    turned = norm_rotary(heads.flatten(0, -3), None, positions.reshape(-1), table, eps)
    return turned.view_as(heads)


OPERATIONS = Operations(
    window_rows=window_rows,
    store=write_normed_windows,
    key_value=key_value,
    queries=queries,
    sink_attention=sink_attention,
    markov_chain=Fastest(markov_chain, partial(markov_chain, joined=True)),
    markov_chain_sampled=markov_chain_sampled,
)
