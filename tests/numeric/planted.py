"""Faults planted in the torch draft model, one each, by replacing one of its operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear

from draftproof.gpu.draft_model import heads, operations
from draftproof.gpu.draft_model.door import NumericDoor, make
from draftproof.gpu.draft_model.model import EAGER, DraftModel, Operations
from draftproof.gpu.window import visible_columns
from numeric.planted_attention import (
    block_at_start,
    causal,
    edited,
    halves_instead_of_pairs,
    inverse_at_window,
    masked_by_zero,
    no_inverse_rotary,
    no_sink,
    one_frame_less,
    scaled_by_rope_width,
    sink_before_scale,
    window_at_position,
    window_of_another,
)

# ---- norms and projections -----------------------------------------------------------------------


def raw_keys() -> Operations:
    """K = V from rows without kv_norm, in the block."""

    def key_value(*args: Any) -> Tensor:
        return operations.rotary(linear(args[0], args[1]), args[3], args[4])

    return replace(EAGER, key_value=key_value)


def raw_window_keys() -> Operations:
    """K = V from rows without kv_norm, in the window."""

    def window_rows(*args: Any) -> Tensor:
        context, wkv, kv_norm, frames, table, _ = args
        rows = torch.unflatten(linear(context, wkv.flatten(0, 1)), -1, kv_norm.shape)
        return operations.rotary(rows, frames, table)

    return replace(EAGER, window_rows=window_rows)


def first_stage_norm() -> Operations:
    """Every stage's window rows with the first stage's kv_norm."""

    def first(norms: Tensor) -> Tensor:
        return norms[:1].expand_as(norms)

    return replace(EAGER, window_rows=edited(operations.window_rows, "kv_norm", first))


def no_head_norm() -> Operations:
    """Query heads not divided by their root mean square."""

    def queries(*args: Any) -> Tensor:
        x, wq_a, q_norm, wq_b, positions, table, head_dim, eps = args
        low = operations.rms_norm(linear(x, wq_a), q_norm, eps)
        flat = torch.unflatten(linear(low, wq_b), -1, (-1, head_dim))
        return operations.rotary(flat, positions, table)

    return replace(EAGER, queries=queries)


def other_eps() -> Operations:
    """RMSNorm with an eps ten times as large: only small rows tell."""

    def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
        return operations.rms_norm(x, weight, 10 * eps)

    return replace(EAGER, rms_norm=rms_norm)


def mean_subtracted() -> Operations:
    """A layer norm in place of RMSNorm."""

    def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
        return operations.rms_norm(x - x.mean(-1, keepdim=True), weight, eps)

    return replace(EAGER, rms_norm=rms_norm)


def stream_sum() -> Operations:
    """The sum of the residual streams instead of their mean: only small rows tell."""

    def total(captured: list[Tensor], streams: int) -> Tensor:
        return operations.stream_mean(captured, streams) * streams

    return replace(EAGER, stream_mean=total)


def streams_interleaved() -> Operations:
    """Streams taken for the faster dimension."""

    def mean(captured: list[Tensor], streams: int) -> Tensor:
        return torch.cat([torch.unflatten(x, -1, (-1, streams)).mean(-1) for x in captured], -1)

    return replace(EAGER, stream_mean=mean)


def layers_swapped() -> Operations:
    """Captured layers side by side in another order."""

    def mean(captured: list[Tensor], streams: int) -> Tensor:
        return operations.stream_mean(captured[::-1], streams)

    return replace(EAGER, stream_mean=mean)


def groups_interleaved() -> Operations:
    """Output groups of every second head."""

    def output(out: Tensor, wo_a: Tensor, wo_b: Tensor) -> Tensor:
        split = torch.unflatten(out, 2, (-1, len(wo_a)))
        return operations.grouped_output(split.transpose(2, 3).flatten(2, 3), wo_a, wo_b)

    return replace(EAGER, grouped_output=output)


def gate_and_up_swapped() -> Operations:
    """silu on the wrong half of the feed-forward."""

    def feed_forward(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        return operations.feed_forward(x, up, gate, down)

    return replace(EAGER, feed_forward=feed_forward)


# ---- heads ---------------------------------------------------------------------------------------


def prev_without_bias() -> Operations:
    """The chain fed by the argmax of the logits without bias."""

    def chain(logits: Tensor, bonus: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
        fed = heads.fed_tokens(bonus, logits.argmax(-1))
        return heads.markov_logits(logits, fed, w1, w2).argmax(-1)

    return replace(EAGER, markov_chain=chain)


def prev_is_bonus() -> Operations:
    """Every position of the chain fed by the bonus."""

    def chain(logits: Tensor, bonus: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
        fed = bonus.unsqueeze(1).expand(logits.shape[:2])
        return heads.markov_logits(logits, fed, w1, w2).argmax(-1)

    return replace(EAGER, markov_chain=chain)


def no_bias() -> Operations:
    """A chain without the Markov bias."""
    return replace(EAGER, markov_chain=lambda logits, *_: logits.argmax(-1))


def confidence_without_token() -> Operations:
    """Confidence from the hidden row alone."""

    def confidence(hidden: Tensor, prev: Tensor, w1: Tensor, weight: Tensor) -> Tensor:
        return hidden.float() @ weight[: hidden.shape[-1]]

    return replace(EAGER, confidence=confidence)


def confidence_from_own_token() -> Operations:
    """Confidence with the token of the next position instead of the one before."""

    def confidence(hidden: Tensor, prev: Tensor, w1: Tensor, weight: Tensor) -> Tensor:
        return heads.confidence(hidden, prev.roll(-1, 1), w1, weight)

    return replace(EAGER, confidence=confidence)


def state_not_carried() -> Operations:
    """A recurrent head that starts every position from state 0."""

    def chain(
        logits: Tensor, hidden: Tensor, bonus: Tensor, w1: Tensor, w2: Tensor, weights: Any
    ) -> Tensor:
        prev, tokens = bonus, []
        for k in range(logits.shape[1]):
            fresh = hidden.new_zeros(hidden.shape[0], w1.shape[1])
            _, bias = heads.rnn_step(fresh, prev, hidden[:, k], w1, w2, weights)
            prev = (logits[:, k] + bias).argmax(-1)
            tokens.append(prev)
        return torch.stack(tokens, 1)

    return replace(EAGER, rnn_chain=chain)


# ---- the model itself ----------------------------------------------------------------------------


class AllBonus(DraftModel):
    """Every input of the block is the bonus: no noise tokens."""

    def block_hidden(
        self, windows: Tensor, slots: Tensor, start: Tensor, valid: Tensor, bonus: Tensor
    ) -> Tensor:
        first = bonus.unsqueeze(1).expand(-1, self.shape.block)
        _, visible = visible_columns(start, valid, windows.shape[2])
        x = embedding(first, self.weights.embedding)
        positions = start.unsqueeze(1) + 1 + torch.arange(self.shape.block)
        for s in range(self.shape.stages):
            normed = operations.rms_norm(x, self.weights.attn_norm[s], self.shape.eps)
            x = x + self.attention(s, normed, positions, windows[:, s], slots, visible)
            normed = operations.rms_norm(x, self.weights.ffn_norm[s], self.shape.eps)
            w = self.weights
            x = x + operations.feed_forward(normed, w.gate[s], w.up[s], w.down[s])
        return operations.rms_norm(x, self.weights.final_norm, self.shape.eps)


class ConfidenceWithoutNorm(DraftModel):
    """Confidence from the hidden row without the weight of the last norm."""

    def confidence(self, hidden: Tensor, prev: Tensor) -> Tensor:
        return super().confidence(hidden / self.weights.final_norm, prev)


Make = Callable[[Mapping[str, Any], Mapping[str, Any], str], NumericDoor]


def with_operations(operations_: Operations) -> Make:
    """A factory whose models have other operations."""
    return lambda sizes, weights, dtype: make(sizes, weights, dtype, operations=operations_)


def with_model(kind: type[DraftModel]) -> Make:
    """A factory whose models are of another class."""

    def made(sizes: Mapping[str, Any], weights: Mapping[str, Any], dtype: str) -> NumericDoor:
        sound = make(sizes, weights, dtype)
        return NumericDoor(kind(sound.model.shape, sound.model.weights), "cpu")

    return made


# ---- all of them ---------------------------------------------------------------------------------

DEFECTS: dict[str, Make] = {
    plant.__name__: with_operations(plant())
    for plant in (
        block_at_start,
        window_at_position,
        no_inverse_rotary,
        inverse_at_window,
        halves_instead_of_pairs,
        causal,
        no_sink,
        sink_before_scale,
        scaled_by_rope_width,
        one_frame_less,
        masked_by_zero,
        window_of_another,
        raw_keys,
        raw_window_keys,
        first_stage_norm,
        no_head_norm,
        other_eps,
        mean_subtracted,
        stream_sum,
        streams_interleaved,
        layers_swapped,
        groups_interleaved,
        gate_and_up_swapped,
        prev_without_bias,
        prev_is_bonus,
        no_bias,
        confidence_without_token,
        confidence_from_own_token,
    )
}
DEFECTS |= {kind.__name__: with_model(kind) for kind in (AllBonus, ConfidenceWithoutNorm)}

WINDOW_ONLY = {
    "window_at_position",
    "raw_window_keys",
    "first_stage_norm",
    "stream_sum",
    "streams_interleaved",
    "layers_swapped",
}
"""Those that show in what is stored; a step from a given state does not meet them."""
