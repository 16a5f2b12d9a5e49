"""The draft model of section 8b: from captured rows to windows, from a bonus to a block.

The last stage is followed by an RMSNorm, and h_k, which the heads read, is what it gives (section
19; `forward_head` in the public `modeling_dspark.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from draftproof.reference.numeric.heads import argmax, confidence, sequential_head
from draftproof.reference.numeric.operations import (
    Matrix,
    Row,
    Vector,
    add,
    feed_forward,
    grouped_output,
    head_norm,
    linear,
    rms_norm,
    rotary,
    sink_attention,
    stream_mean,
)
from draftproof.reference.numeric.shape import Shape, StageWeights, Weights


@dataclass(frozen=True, slots=True)
class Block:
    """A drafted block: per position h_k [hidden], logits with bias [V], token, confidence."""

    hidden: list[Row]
    logits: list[Row]
    tokens: list[int]
    confidence: Row


class DraftModel:
    """A draft model for one request at a time."""

    def __init__(self, shape: Shape, weights: Weights) -> None:
        self.shape = shape
        self.weights = weights

    # ---- the window ------------------------------------------------------------------------------

    def context(self, captured: Sequence[Vector]) -> Row:
        """The context vector of a position; captured: [layers][streams · hidden]."""
        layers = [stream_mean(layer, self.shape.streams) for layer in captured]
        side_by_side = [component for layer in layers for component in layer]
        projected = linear(self.weights.main_proj, side_by_side)
        return rms_norm(projected, self.weights.main_norm, self.shape.eps)

    def window_rows(self, captured: Sequence[Vector], frame: int) -> list[Row]:
        """What the windows store of a position, whose frame is position + 1: [stages][head_dim]."""
        context = self.context(captured)
        return [self._key_value(stage, context, frame) for stage in self.weights.stages]

    def _key_value(self, stage: StageWeights, x: Vector, position: int) -> Row:
        row = rms_norm(linear(stage.wkv, x), stage.kv_norm, self.shape.eps)
        return self._turned(row, position)

    def _turned(self, row: Vector, position: int) -> Row:
        return rotary(row, position, self.shape.rope_head_dim, self.shape.rope_base)

    # ---- the block -------------------------------------------------------------------------------

    def draft(
        self,
        windows: Sequence[Matrix],
        start: int,
        bonus: int,
        given: Sequence[int] | None = None,
    ) -> Block:
        """Draft a block by argmax.

        windows: [stages][frames][head_dim], visible frames, in any order; start: the newest frame;
        given: [K], the tokens before each position if they are to be others than the bonus and
        the block's own drafts.
        """
        hidden = self.block_hidden(windows, start, bonus)
        head = sequential_head(self.shape, self.weights)
        logits: list[Row] = []
        tokens: list[int] = []
        confidences: Row = []
        for k, row in enumerate(hidden):
            prev = given[k] if given is not None else [bonus, *tokens][k]
            logits.append(add(linear(self.weights.head, row), head.bias(prev, row)))
            tokens.append(argmax(logits[k]))
            confidences.append(confidence(self.weights, row, prev))
        return Block(hidden, logits, tokens, confidences)

    def block_hidden(self, windows: Sequence[Matrix], start: int, bonus: int) -> list[Row]:
        """h_k of each position, [K][hidden]: the stages, then the last norm."""
        shape, weights = self.shape, self.weights
        inputs = [bonus] + [shape.noise_token] * (shape.block - 1)
        rows = [list(weights.embedding[token]) for token in inputs]
        for stage, window in zip(weights.stages, windows, strict=True):
            normed = [rms_norm(row, stage.attn_norm, shape.eps) for row in rows]
            rows = self._added(rows, self._attention(stage, normed, window, start))
            normed = [rms_norm(row, stage.ffn_norm, shape.eps) for row in rows]
            rows = self._added(
                rows, [feed_forward(row, stage.gate, stage.up, stage.down) for row in normed]
            )
        return [rms_norm(row, weights.final_norm, shape.eps) for row in rows]

    def _added(self, rows: list[Row], more: list[Row]) -> list[Row]:
        return [add(row, other) for row, other in zip(rows, more, strict=True)]

    def _attention(
        self, stage: StageWeights, rows: list[Row], window: Matrix, start: int
    ) -> list[Row]:
        """Every row sees every visible frame and every block row; row i is at start + 1 + i."""
        positions = range(start + 1, start + 1 + len(rows))
        block = [self._key_value(stage, row, p) for row, p in zip(rows, positions, strict=True)]
        seen = [*window, *block]
        outputs: list[Row] = []
        for row, position in zip(rows, positions, strict=True):
            heads = [
                self._turned(sink_attention(query, seen, sink), -position)
                for query, sink in zip(self._queries(stage, row, position), stage.sink, strict=True)
            ]
            outputs.append(grouped_output(heads, stage.wo_a, stage.wo_b))
        return outputs

    def _queries(self, stage: StageWeights, row: Vector, position: int) -> list[Row]:
        """The query heads of a block row, [heads][head_dim]: low rank, per-head norm, rotary."""
        low = rms_norm(linear(stage.wq_a, row), stage.q_norm, self.shape.eps)
        flat = linear(stage.wq_b, low)
        width = self.shape.head_dim
        heads = [flat[i : i + width] for i in range(0, len(flat), width)]
        return [self._turned(head_norm(head, self.shape.eps), position) for head in heads]
