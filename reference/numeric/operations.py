"""The operations of section 8b on plain lists, each as the formula says it, in float64.

A row is a list of floats; a matrix is a list of rows, as it multiplies a column: `linear(w, x)`
is w · x, so w has one row per output. Nothing here is fast and nothing here is clever.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

Row = list[float]
Vector = Sequence[float]
Matrix = Sequence[Sequence[float]]


def dot(a: Vector, b: Vector) -> float:
    """The inner product of two rows of one length."""
    if len(a) != len(b):
        raise ValueError(f"rows of {len(a)} and {len(b)} numbers have no inner product")
    return sum(map(mul, a, b), 0.0)


def linear(weight: Matrix, x: Vector) -> Row:
    """weight · x; weight: [outputs][inputs], x: [inputs]."""
    return [dot(row, x) for row in weight]


def add(a: Vector, b: Vector) -> Row:
    """The sum of two rows."""
    return [p + q for p, q in zip(a, b, strict=True)]


def root_mean_square(x: Vector, eps: float) -> float:
    """sqrt(mean(x²) + eps)."""
    return math.sqrt(dot(x, x) / len(x) + eps)


def rms_norm(x: Vector, weight: Vector, eps: float) -> Row:
    """x · rsqrt(mean(x²) + eps) · weight."""
    scale = root_mean_square(x, eps)
    return [component / scale * w for component, w in zip(x, weight, strict=True)]


def head_norm(x: Vector, eps: float) -> Row:
    """A query head divided by its root mean square; there is no weight."""
    scale = root_mean_square(x, eps)
    return [component / scale for component in x]


def rotary(x: Vector, position: int, rope_head_dim: int, base: float) -> Row:
    """Turn the adjacent pairs of the last `rope_head_dim` components by position · angle.

    Pair i of them, components (2i, 2i + 1), turns by position · base^(-2i / rope_head_dim); the
    components before them pass. A negative position turns back: that is the inverse rotary.
    """
    turned = list(x)
    first = len(x) - rope_head_dim
    for i in range(0, rope_head_dim, 2):
        angle = position * base ** (-i / rope_head_dim)
        cosine, sine = math.cos(angle), math.sin(angle)
        real, imaginary = x[first + i], x[first + i + 1]
        turned[first + i] = real * cosine - imaginary * sine
        turned[first + i + 1] = real * sine + imaginary * cosine
    return turned


def sink_attention(query: Vector, rows: Matrix, sink: float) -> Row:
    """One head of one block row: attention over `rows`, which are keys and values at once.

    Scores are query · row / sqrt(head_dim). The sink takes part in the softmax's denominator like
    a score, but has no value: with a large sink the head says almost nothing.
    """
    scores = [dot(query, row) / math.sqrt(len(query)) for row in rows]
    highest = max(*scores, sink)
    masses = [math.exp(score - highest) for score in scores]
    total = sum(masses) + math.exp(sink - highest)
    return [dot(masses, column) / total for column in zip(*rows, strict=True)]


def grouped_output(heads: Matrix, wo_a: Sequence[Matrix], wo_b: Matrix) -> Row:
    """The heads' outputs, side by side, in groups: wo_a of each group, then wo_b over all.

    heads: [heads][head_dim]; wo_a: [groups][o_rank][heads · head_dim / groups];
    wo_b: [hidden][groups · o_rank].
    """
    flat = [component for head in heads for component in head]
    width = len(flat) // len(wo_a)
    parts = [flat[i : i + width] for i in range(0, len(flat), width)]
    low = [linear(weight, part) for weight, part in zip(wo_a, parts, strict=True)]
    return linear(wo_b, [component for part in low for component in part])


def feed_forward(x: Vector, gate: Matrix, up: Matrix, down: Matrix) -> Row:
    """down · (silu(gate · x) ⊙ (up · x)), the dense stand-in for the mixture of experts."""
    opened = [value * sigmoid(value) for value in linear(gate, x)]
    return linear(down, [p * q for p, q in zip(opened, linear(up, x), strict=True)])


def stream_mean(captured: Vector, streams: int) -> Row:
    """A layer's hidden state: the mean of its residual streams, which lie one after another."""
    hidden = len(captured) // streams
    return [sum(captured[i::hidden]) / streams for i in range(hidden)]


def sigmoid(x: float) -> float:
    """1 / (1 + e^-x), without overflow."""
    if x < 0:
        return math.exp(x) / (1 + math.exp(x))
    return 1 / (1 + math.exp(-x))
