"""Faults planted in what the torch draft model does by position, and in its attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from draftproof.gpu.draft_model import operations
from draftproof.gpu.draft_model.model import EAGER, Operations


def edited(
    function: Callable[..., Tensor], name: str, edit: Callable[[Tensor], Tensor]
) -> Callable[..., Tensor]:
    """The same function, one of whose arguments is edited before."""
    names = signature(function)

    def call(*args: Any, **more: Any) -> Tensor:
        bound = names.bind(*args, **more)
        bound.arguments[name] = edit(bound.arguments[name])
        return function(*bound.args, **bound.kwargs)

    return call


# ---- positions -----------------------------------------------------------------------------------


def block_at_start() -> Operations:
    """Block row i turned to start + i instead of start + 1 + i."""
    return replace(
        EAGER,
        queries=edited(operations.queries, "positions", lambda at: at - 1),
        key_value=edited(operations.key_value, "positions", lambda at: at - 1),
        rotary=edited(operations.rotary, "positions", lambda at: at - 1),
    )


def window_at_position() -> Operations:
    """Window rows turned to their position instead of their frame."""
    return replace(EAGER, window_rows=edited(operations.window_rows, "frames", lambda at: at - 1))


def no_inverse_rotary() -> Operations:
    """The output of attention not turned back."""
    return replace(EAGER, rotary=lambda x, *_, **__: x)


def inverse_at_window() -> Operations:
    """The output turned back by the first row's position instead of each row's own."""

    def first(positions: Tensor) -> Tensor:
        return positions[:, :1].expand_as(positions)

    return replace(EAGER, rotary=edited(operations.rotary, "positions", first))


def halves_instead_of_pairs() -> Operations:
    """Rotary on component i and i + half, as other models do."""

    def key_value(
        x: Tensor, wkv: Tensor, kv_norm: Tensor, positions: Tensor, table: Tensor, eps: float
    ) -> Tensor:
        row = operations.rms_norm(linear(x, wkv), kv_norm, eps)
        half = table.shape[1]
        real, imaginary = row[..., -2 * half : -half], row[..., -half:]
        cosine, sine = table[positions].to(row.dtype).unbind(-1)
        turned = [real * cosine - imaginary * sine, real * sine + imaginary * cosine]
        return torch.cat([row[..., : -2 * half], *turned], -1)

    return replace(EAGER, key_value=key_value)


# ---- attention -----------------------------------------------------------------------------------


def causal() -> Operations:
    """A block row sees only itself and those before it."""

    def attention(
        q: Tensor, windows: Tensor, slots: Tensor, visible: Tensor, block_kv: Tensor, sink: Tensor
    ) -> Tensor:
        rows = [
            operations.sink_attention(
                q[:, k : k + 1], windows, slots, visible, block_kv[:, : k + 1], sink
            )
            for k in range(q.shape[1])
        ]
        return torch.cat(rows, 1)

    return replace(EAGER, sink_attention=attention)


def attention_with(name: str, edit: Callable[[Tensor], Tensor]) -> Operations:
    """Attention with one argument edited."""
    return replace(EAGER, sink_attention=edited(operations.sink_attention, name, edit))


def no_sink() -> Operations:
    """A plain softmax."""
    return attention_with("sink", lambda sink: torch.full_like(sink, float("-inf")))


def sink_before_scale() -> Operations:
    """The sink scaled like a score; head_dim is 16."""
    return attention_with("sink", lambda sink: sink * 16**-0.5)


def scaled_by_rope_width() -> Operations:
    """Scores scaled by (head_dim + rope_head_dim)^-0.5, as where rotary components come on top."""
    return attention_with("q", lambda q: q * 1.5**-0.5)


def one_frame_less() -> Operations:
    """One visible frame not seen."""

    def fewer(visible: Tensor) -> Tensor:
        first = visible.int().argmax(1, keepdim=True)
        return visible.scatter(1, first, torch.zeros_like(first, dtype=torch.bool))

    return attention_with("visible", fewer)


def masked_by_zero() -> Operations:
    """Invisible cells multiplied by 0 instead of selected away: NaN stays NaN."""

    def attention(
        q: Tensor, windows: Tensor, slots: Tensor, visible: Tensor, block_kv: Tensor, sink: Tensor
    ) -> Tensor:
        cells = windows[slots] * visible.unsqueeze(-1)
        within = torch.arange(len(slots))
        return operations.sink_attention(q, cells, within, visible | True, block_kv, sink)

    return replace(EAGER, sink_attention=attention)


def window_of_another() -> Operations:
    """Windows of other slots."""
    return attention_with("slots", lambda slots: slots.flip(0))
