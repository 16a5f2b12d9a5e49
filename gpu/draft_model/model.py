"""The draft model: captured rows to window rows, bonus tokens to blocks (section 8b)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear

from draftproof.gpu.constants import ramp
from draftproof.gpu.draft_model import heads, operations
from draftproof.gpu.draft_model.heads import Drawing, RnnWeights
from draftproof.gpu.draft_model.operations import NormRotary
from draftproof.gpu.draft_model.shape import DraftShape, DraftWeights
from draftproof.gpu.operations import Accepted, Prompt
from draftproof.gpu.window import visible_columns


@dataclass(frozen=True, slots=True)
class Operations:
    """The functions a draft model is made of; a fused kernel takes the place of its twin.

    Each has the signature, shapes and dtypes of the function it stands for by default.
    """

    stream_mean: Callable[..., Tensor] = operations.stream_mean
    rms_norm: Callable[..., Tensor] = operations.rms_norm
    window_rows: Callable[..., Tensor] = operations.window_rows
    store: Callable[..., None] = operations.store
    queries: Callable[..., Tensor] = operations.queries
    key_value: Callable[..., Tensor] = operations.key_value
    sink_attention: Callable[..., Tensor] = operations.sink_attention
    rotary: Callable[..., Tensor] = operations.rotary
    grouped_output: Callable[..., Tensor] = operations.grouped_output
    feed_forward: Callable[..., Tensor] = operations.feed_forward
    markov_chain: Callable[..., Tensor] = heads.markov_chain
    markov_chain_sampled: Callable[..., tuple[Tensor, Tensor]] = heads.markov_chain_sampled
    rnn_chain: Callable[..., Tensor] = heads.rnn_chain
    confidence: Callable[..., Tensor] = heads.confidence


EAGER = Operations()


class Draft(NamedTuple):
    """A drafted block of each request.

    hidden: h_k, [G, K, H] of the model's dtype; logits: float32 [G, K, V], without bias;
    tokens: int64 [G, K]; confidence: float32 [G, K].
    """

    hidden: Tensor
    logits: Tensor
    tokens: Tensor
    confidence: Tensor


class DraftModel:
    """The draft model over windows that somebody else keeps.

    [D] What section 8b leaves open, as in the public source (`modeling_dspark.py`, `forward_head`):
    the last stage is followed by an RMSNorm, and what it gives is h_k for all heads.
    """

    def __init__(
        self, shape: DraftShape, weights: DraftWeights, operations_: Operations = EAGER
    ) -> None:
        self.shape = shape
        self.weights = weights
        self.operations = operations_
        self.table = operations.rotary_table(
            shape.max_position + 1,
            shape.rope_head_dim,
            shape.rope_base,
            weights.embedding.device,
        )
        self.rnn = RnnWeights(weights.rnn_gate, weights.rnn_candidate, weights.rnn_output)

    # ---- the window ------------------------------------------------------------------------------

    def context(self, captured: Sequence[Tensor]) -> Tensor:
        """Context vectors, [T, H]; captured: per captured layer [T, streams · H]."""
        mean = self.operations.stream_mean(captured, self.shape.streams)
        projected = linear(mean, self.weights.main_proj)
        return self.operations.rms_norm(projected, self.weights.main_norm, self.shape.eps)

    def window_rows(self, captured: Sequence[Tensor], frames: Tensor) -> Tensor:
        """What the windows store, [T, stages, D], of rows at their frames, int64 [T]."""
        return self.operations.window_rows(
            self.context(captured),
            self.weights.wkv,
            self.weights.kv_norm,
            frames,
            self.table,
            self.shape.eps,
        )

    def store(self, windows: Tensor, prompt: Prompt | None, accepted: Accepted | None) -> None:
        """A step's rows into the windows [S + 1, stages, W, D], every stage under its own norm.

        Their rows are context vectors as `wkv` projects them: [token rows, stages, D] of prompts,
        [G, R, stages, D] of generations.
        """
        norm = NormRotary(self.weights.kv_norm, self.table, self.shape.eps)
        self.operations.store(windows, prompt, accepted, norm)

    # ---- the block -------------------------------------------------------------------------------

    def draft(
        self, windows: Tensor, slots: Tensor, start: Tensor, valid: Tensor, bonus: Tensor
    ) -> Draft:
        """Draft a block of every request by argmax.

        windows: [S + 1, stages, W, D], frame f in column f mod W; slots, start (the newest frame),
        valid (frames visible), bonus: int64 [G].
        """
        hidden = self.block_hidden(windows, slots, start, valid, bonus)
        logits = self.block_logits(hidden)
        tokens = self.chain(logits, hidden, bonus)
        fed = heads.fed_tokens(bonus, tokens)
        return Draft(hidden, logits, tokens, self.confidence(hidden, fed))

    def block_hidden(
        self, windows: Tensor, slots: Tensor, start: Tensor, valid: Tensor, bonus: Tensor
    ) -> Tensor:
        """h_k of every position, [G, K, H]; arguments as for `draft`."""
        shape, weights, do = self.shape, self.weights, self.operations
        _, visible = visible_columns(start, valid, windows.shape[2])
        noise = bonus.new_full((len(bonus), shape.block - 1), shape.noise_token)
        x = embedding(torch.cat([bonus.unsqueeze(1), noise], 1), weights.embedding)
        positions = start.unsqueeze(1) + 1 + ramp(shape.block, start.device)
        for stage in range(shape.stages):
            normed = do.rms_norm(x, weights.attn_norm[stage], shape.eps)
            window = windows[:, stage]
            x = x + self.attention(stage, normed, positions, window, slots, visible)
            normed = do.rms_norm(x, weights.ffn_norm[stage], shape.eps)
            gate, up, down = weights.gate[stage], weights.up[stage], weights.down[stage]
            x = x + do.feed_forward(normed, gate, up, down)
        hidden: Tensor = do.rms_norm(x, weights.final_norm, shape.eps)
        return hidden

    def attention(
        self,
        stage: int,
        x: Tensor,
        positions: Tensor,
        window: Tensor,
        slots: Tensor,
        visible: Tensor,
    ) -> Tensor:
        """The attention of one stage, [G, K, H].

        x: [G, K, H], normed; positions: int64 [G, K], of the block rows; window: [S + 1, W, D];
        slots: int64 [G]; visible: bool [G, W].
        """
        shape, weights, do = self.shape, self.weights, self.operations
        q = do.queries(
            x,
            weights.wq_a[stage],
            weights.q_norm[stage],
            weights.wq_b[stage],
            positions,
            self.table,
            shape.head_dim,
            shape.eps,
        )
        kv = do.key_value(
            x, weights.wkv[stage], weights.kv_norm[stage], positions, self.table, shape.eps
        )
        out = do.sink_attention(q, window, slots, visible, kv, weights.sink[stage])
        out = do.rotary(out, positions, self.table, inverse=True)
        return do.grouped_output(out, weights.wo_a[stage], weights.wo_b[stage])

    # ---- the heads -------------------------------------------------------------------------------

    def block_logits(self, hidden: Tensor) -> Tensor:
        """Logits by the target's head, without bias, float32 [G, K, V]; hidden: [G, K, H]."""
        return linear(hidden, self.weights.head).float()

    def chain(self, logits: Tensor, hidden: Tensor, bonus: Tensor) -> Tensor:
        """The greedy tokens of the model's own sequential head, int64 [G, K]."""
        w1, w2 = self.weights.w1, self.weights.w2
        if self.shape.rnn:
            return self.operations.rnn_chain(logits, hidden, bonus, w1, w2, self.rnn)
        return self.operations.markov_chain(logits, bonus, w1, w2)

    def chain_sampled(
        self, logits: Tensor, bonus: Tensor, drawing: Drawing
    ) -> tuple[Tensor, Tensor]:
        """Tokens drawn by the Markov head, int64 [G, K], and their laws, float32 [G, K, V].

        Raises ValueError for a model with the recurrent head, which is there by argmax only.
        """
        if self.shape.rnn:
            raise ValueError("the recurrent head draws by argmax only; rnn must be False")
        w1, w2 = self.weights.w1, self.weights.w2
        return self.operations.markov_chain_sampled(logits, bonus, w1, w2, drawing)

    def logits_after(self, logits: Tensor, hidden: Tensor, prev: Tensor) -> Tensor:
        """Logits with the bias of given tokens, float32 [G, K, V]; prev: int64 [G, K]."""
        w1, w2 = self.weights.w1, self.weights.w2
        if self.shape.rnn:
            return heads.rnn_logits(logits, hidden, prev, w1, w2, self.rnn)
        return heads.markov_logits(logits, prev, w1, w2)

    def confidence(self, hidden: Tensor, prev: Tensor) -> Tensor:
        """Confidence logits, float32 [G, K]; prev: int64 [G, K], the token before each position."""
        w1, weight = self.weights.w1, self.weights.confidence
        return self.operations.confidence(hidden, prev, w1, weight)
