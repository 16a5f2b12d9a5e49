"""The operations of section 8b under one roof: lists in, lists out, whoever computes them.

A vector worked out by hand is thus tested on everybody. Who writes another set of operations
(fused kernels) adds a class here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import Any, Protocol

import torch

from draftproof.gpu.draft_model import heads as eager_heads
from draftproof.gpu.draft_model import operations as eager
from draftproof.gpu.kernels import attention, draft_model, markov
from draftproof.reference.numeric import heads, operations
from draftproof.reference.numeric.shape import Shape, Weights, random_weights

Vector = Sequence[float]
Rows = Sequence[Sequence[float]]

torch.set_num_threads(1)


class Implementation(Protocol):
    """One set of operations; `exact` is the relative error that its arithmetic may leave."""

    exact: float

    def rms_norm(self, x: Vector, weight: Vector, eps: float) -> list[float]: ...
    def head_norm(self, x: Vector, eps: float) -> list[float]: ...
    def rotary(self, x: Vector, position: int, rope: int, inverse: bool) -> list[float]: ...
    def attention(self, q: Vector, window: Rows, block: Rows, sink: float) -> list[float]: ...
    def grouped_output(self, heads: Rows, wo_a: Sequence[Rows], wo_b: Rows) -> list[float]: ...
    def feed_forward(self, x: Vector, gate: Rows, up: Rows, down: Rows) -> list[float]: ...
    def stream_mean(self, layers: Rows, streams: int) -> list[float]: ...
    def markov_chain(self, logits: Rows, bonus: int, w1: Rows, w2: Rows) -> list[int]: ...
    def rnn_biases(self, hidden: Rows, fed: Sequence[int], weights: Weights) -> Rows: ...
    def confidence(self, hidden: Vector, w1: Rows, prev: int, weight: Vector) -> float: ...


class Reference:
    """The reference, in float64."""

    exact = 1e-12

    def rms_norm(self, x: Vector, weight: Vector, eps: float) -> list[float]:
        return operations.rms_norm(x, weight, eps)

    def head_norm(self, x: Vector, eps: float) -> list[float]:
        return operations.head_norm(x, eps)

    def rotary(self, x: Vector, position: int, rope: int, inverse: bool) -> list[float]:
        return operations.rotary(x, -position if inverse else position, rope, 10000.0)

    def attention(self, q: Vector, window: Rows, block: Rows, sink: float) -> list[float]:
        return operations.sink_attention(q, [*window, *block], sink)

    def grouped_output(self, heads: Rows, wo_a: Sequence[Rows], wo_b: Rows) -> list[float]:
        return operations.grouped_output(heads, wo_a, wo_b)

    def feed_forward(self, x: Vector, gate: Rows, up: Rows, down: Rows) -> list[float]:
        return operations.feed_forward(x, gate, up, down)

    def stream_mean(self, layers: Rows, streams: int) -> list[float]:
        return [x for layer in layers for x in operations.stream_mean(layer, streams)]

    def markov_chain(self, logits: Rows, bonus: int, w1: Rows, w2: Rows) -> list[int]:
        head, tokens = heads.MarkovHead(some_weights(w1=w1, w2=w2)), [bonus]
        for row in logits:
            tokens.append(heads.argmax(operations.add(row, head.bias(tokens[-1], []))))
        return tokens[1:]

    def rnn_biases(self, hidden: Rows, fed: Sequence[int], weights: Weights) -> Rows:
        head = heads.RnnHead(weights, len(weights.rnn_gate))
        return [head.bias(prev, row) for prev, row in zip(fed, hidden, strict=True)]

    def confidence(self, hidden: Vector, w1: Rows, prev: int, weight: Vector) -> float:
        return heads.confidence(some_weights(w1=w1, confidence=weight), hidden, prev)


class Eager:
    """The eager torch twins, in float32."""

    exact = 1e-6

    def rms_norm(self, x: Vector, weight: Vector, eps: float) -> list[float]:
        return listed(eager.rms_norm(tensor(x), tensor(weight), eps))

    def head_norm(self, x: Vector, eps: float) -> list[float]:
        return listed(eager.rms_norm(tensor(x), None, eps))

    def rotary(self, x: Vector, position: int, rope: int, inverse: bool) -> list[float]:
        table = eager.rotary_table(position + 1, rope, 10000.0, "cpu")
        turned = eager.rotary(tensor([x]), torch.tensor([position]), table, inverse)
        return listed(turned[0])

    def attention(self, q: Vector, window: Rows, block: Rows, sink: float) -> list[float]:
        return self._attention(eager.sink_attention, q, window, block, sink)

    def _attention(
        self, sink_attention: Any, q: Vector, window: Rows, block: Rows, sink: float
    ) -> list[float]:
        """The window's rows in a slot that is not the first, the other cells and slots NaN."""
        width = len(window) + 2
        cells = torch.full((3, width, len(q)), float("nan"))
        cells[1, 1 : width - 1] = tensor(window).view(-1, len(q))
        visible = torch.ones(1, width, dtype=torch.bool)
        visible[0, 0] = visible[0, -1] = False
        query = tensor(q).expand(1, len(block), 1, -1)
        slots, rows = torch.tensor([1]), tensor([block])
        out = sink_attention(query, cells, slots, visible, rows, tensor([sink]))
        return listed(out[0, 0, 0])

    def grouped_output(self, heads: Rows, wo_a: Sequence[Rows], wo_b: Rows) -> list[float]:
        return listed(eager.grouped_output(tensor([[heads]]), tensor(wo_a), tensor(wo_b))[0, 0])

    def feed_forward(self, x: Vector, gate: Rows, up: Rows, down: Rows) -> list[float]:
        return listed(eager.feed_forward(tensor(x), tensor(gate), tensor(up), tensor(down)))

    def stream_mean(self, layers: Rows, streams: int) -> list[float]:
        return listed(eager.stream_mean([tensor([layer]) for layer in layers], streams)[0])

    def markov_chain(self, logits: Rows, bonus: int, w1: Rows, w2: Rows) -> list[int]:
        bonuses = torch.tensor([bonus])
        chain = eager_heads.markov_chain(tensor([logits]), bonuses, tensor(w1), tensor(w2))
        return [int(token) for token in chain[0].tolist()]

    def rnn_biases(self, hidden: Rows, fed: Sequence[int], weights: Weights) -> Rows:
        rnn = eager_heads.RnnWeights(
            tensor(weights.rnn_gate), tensor(weights.rnn_candidate), tensor(weights.rnn_output)
        )
        w1, w2 = tensor(weights.w1), tensor(weights.w2)
        zero = torch.zeros(1, len(fed), len(w2))
        found = eager_heads.rnn_logits(zero, tensor([hidden]), torch.tensor([fed]), w1, w2, rnn)
        return [listed(row) for row in found[0]]

    def confidence(self, hidden: Vector, w1: Rows, prev: int, weight: Vector) -> float:
        prevs = torch.tensor([[prev]])
        found = eager_heads.confidence(tensor([[hidden]]), prevs, tensor(w1), tensor(weight))
        return float(found[0, 0])


class Kernels(Eager):
    """The Triton kernels, in float32, and the eager twins of what has none."""

    def rms_norm(self, x: Vector, weight: Vector, eps: float) -> list[float]:
        """At position 0 nothing turns."""
        return self._normed(x, tensor([weight]), 0, 2, eps)

    def head_norm(self, x: Vector, eps: float) -> list[float]:
        return self._normed(x, None, 0, 2, eps)

    def rotary(self, x: Vector, position: int, rope: int, inverse: bool) -> list[float]:
        """The kernel divides by the root mean square too. It has no inverse."""
        if inverse:
            return super().rotary(x, position, rope, inverse)
        size = sqrt(sum(a * a for a in x) / len(x))
        return [size * a for a in self._normed(x, None, position, rope, 0.0)]

    def attention(self, q: Vector, window: Rows, block: Rows, sink: float) -> list[float]:
        return self._attention(attention.sink_attention, q, window, block, sink)

    def markov_chain(self, logits: Rows, bonus: int, w1: Rows, w2: Rows) -> list[int]:
        bonuses = torch.tensor([bonus])
        chain = markov.markov_chain(tensor([logits]), bonuses, tensor(w1), tensor(w2))
        return [int(token) for token in chain[0].tolist()]

    def _normed(
        self, x: Vector, weight: torch.Tensor | None, position: int, rope: int, eps: float
    ) -> list[float]:
        table = eager.rotary_table(position + 1, rope, 10000.0, "cpu")
        at = torch.tensor([position])
        return listed(draft_model.norm_rotary(tensor([[x]]), weight, at, table, eps)[0, 0])


IMPLEMENTATIONS: list[Implementation] = [Reference(), Eager(), Kernels()]


def tensor(numbers: Any) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float32)


def listed(found: torch.Tensor) -> list[float]:
    return [float(x) for x in found.tolist()]


def some_weights(**given: Any) -> Weights:
    """Weights of a tiny model, in which some are given."""
    tiny = Shape(
        block=1, stages=1, vocab=2, hidden=2, heads=2, head_dim=2, rope_head_dim=2, q_rank=1,
        o_rank=1, ffn=1, markov_rank=1, captured_layers=1, streams=1,
    )  # fmt: skip
    return replace(random_weights(tiny, 0), **given)
