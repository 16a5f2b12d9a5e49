"""How far rounding may carry a draft model from the truth: a running error analysis of one step.

Every operation of section 8b is done here once more, in numpy's float64, on pairs: a value, and
the size of the error that an implementation's arithmetic gives it. The values are the reference's
(`check_numeric` asserts that they agree), so this is the error analysis of that very step.

**The arithmetic.** A number that is kept between two operations is rounded to the dtype:
x (1 + d), |d| <= u, u = 2^-24 for float32 and 2^-8 for bfloat16. An inner product of n terms is
accumulated in float32 whatever the dtype: |error| <= gamma_n · Σ|a_i b_i|, gamma_n = n u' /
(1 - n u'), u' = 2^-24, in any order of summation (Higham, Accuracy and Stability, section 3.1).

**Sizes, not worst cases.** Carried through as worst cases these bounds say nothing: each product
with a matrix multiplies a relative error by about the square root of its width. For hidden 16 and
one stage the bound on h is 0.08 in float32 and 300 in bfloat16, where true errors are 1e-6 and
0.02; for two stages it overflows. So an error is carried as its root mean square, rounding errors
taken as independent and of mean zero, to first order (Higham and Mary, A new approach to
probabilistic rounding error analysis, SIAM J. Sci. Comput. 41 (2019): gamma_n becomes a small
multiple of sqrt(n) u). In detail:

* a rounding has the size u |x| (a uniform d has u / sqrt(3): the margin is kept);
* an inner product adds sqrt(n) u' Σ|a_i b_i|;
* errors of the components of one row add as squares: y = w · x gives (w²) · (error of x)²;
* errors of the values of *different rows* add as they are: block rows start from the same noise
  embedding, so theirs may be equal;
* a function adds |derivative| · error: the norm (its scale and its components), softmax (each
  score moves the output by p_j (v_j - output)), silu, sigmoid, tanh.

**The tolerance** is `SAFETY` = 4 times that size. Measured over the shapes of the tests, errors of
the eager model have a root mean square of 0.1 (float32, whose sums torch splits in blocks) to 0.4
(bfloat16) of the size computed here, and the largest of some 1e5 numbers was twice its size. The
margin left is for implementations that round more often: the per-head norm in the query's dtype,
probabilities or logits in bfloat16.

First order holds while the errors of the scores are small; where they are not, `UsageError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from draftproof.reference.numeric.shape import Shape, StageWeights, Weights
from draftproof.sim.errors import UsageError

Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]

SAFETY = 4.0


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Unit roundoffs of an implementation.

    store: of what is kept between operations; accumulate: of sums; angle: of a rotary angle,
    whose error grows with the position (2^-24 for tables made in float32).
    """

    store: float
    accumulate: float = 2.0**-24
    angle: float = 2.0**-53


ARITHMETIC = {"float32": Arithmetic(2.0**-24), "bfloat16": Arithmetic(2.0**-8)}


class Approx(NamedTuple):
    """Numbers, and the size of the error of each."""

    value: Array
    error: Array


def exact(numbers: object) -> Approx:
    """Numbers that an implementation holds exactly: weights, stored window rows."""
    value = np.array(numbers, dtype=np.float64)
    return Approx(value, np.zeros_like(value))


def joined(parts: Sequence[Approx], axis: int) -> Approx:
    """Side by side."""
    return Approx(
        np.concatenate([part.value for part in parts], axis),
        np.concatenate([part.error for part in parts], axis),
    )


def root(*errors: Array) -> Array:
    """Independent errors together."""
    total: Array = np.sqrt(sum(error * error for error in errors))
    return total


class ErrorAnalysis:
    """One draft model under one arithmetic. Rows are [rows, width]."""

    def __init__(self, shape: Shape, weights: Weights, arithmetic: Arithmetic) -> None:
        self.shape = shape
        self.weights = weights
        self.arithmetic = arithmetic

    # ---- operations ------------------------------------------------------------------------------

    def stored(self, value: Array, *errors: Array) -> Approx:
        """A result rounded to the dtype."""
        return Approx(value, root(*errors, self.arithmetic.store * np.abs(value)))

    def linear(self, weight: object, x: Approx) -> Approx:
        """weight · x for each row of x."""
        w = np.array(weight, dtype=np.float64).T
        summed = self.arithmetic.accumulate * np.sqrt(len(w)) * (np.abs(x.value) @ np.abs(w))
        return self.stored(x.value @ w, np.sqrt(x.error**2 @ w**2), summed)

    def norm(self, x: Approx, weight: object) -> Approx:
        """RMSNorm over the last axis: y_i = w_i x_i / s, dy_i = w_i dx_i / s - y_i ds / s."""
        w, n = np.array(weight, dtype=np.float64), x.value.shape[-1]
        square = (x.value**2).mean(-1, keepdims=True) + self.shape.eps
        y = w * x.value / np.sqrt(square)
        scale = np.sqrt((x.value**2 * x.error**2).sum(-1, keepdims=True)) / (n * square)
        inner = self.arithmetic.accumulate * np.sqrt(n + 4)
        return self.stored(y, w * x.error / np.sqrt(square), y * scale, y * inner)

    def rotary(self, x: Approx, positions: Positions, inverse: bool = False) -> Approx:
        """Pairs of the last components turned; x: [rows, ..., head_dim], positions: [rows]."""
        rope = self.shape.rope_head_dim
        steps = self.shape.rope_base ** (-np.arange(0, rope, 2) / rope)
        angles = np.multiply.outer(positions.astype(np.float64), steps)
        angles = angles.reshape(len(positions), *[1] * (x.value.ndim - 2), -1)
        cos, sin = np.cos(angles), np.sin(angles) * (-1 if inverse else 1)
        first = x.value.shape[-1] - rope
        value, error = x.value.copy(), x.error.copy()
        real, imaginary = x.value[..., first::2], x.value[..., first + 1 :: 2]
        e_real, e_imaginary = x.error[..., first::2], x.error[..., first + 1 :: 2]
        value[..., first::2] = real * cos - imaginary * sin
        value[..., first + 1 :: 2] = real * sin + imaginary * cos
        length = np.hypot(real, imaginary)
        turn = length * (np.abs(angles) * self.arithmetic.angle + 2 * self.arithmetic.accumulate)
        error[..., first::2] = root(cos * e_real, sin * e_imaginary, turn)
        error[..., first + 1 :: 2] = root(sin * e_real, cos * e_imaginary, turn)
        return self.stored(value, error)

    def attention(self, q: Approx, rows: Approx, sink: Array) -> Approx:
        """Sink attention; q: [K, heads, D], rows: [cells, D], sink: [heads]. Returns q's shape."""
        scale = q.value.shape[-1] ** -0.5
        scores = np.einsum("khd,jd->khj", q.value, rows.value) * scale
        size = np.einsum("khd,jd->khj", np.abs(q.value), np.abs(rows.value)) * scale
        moved = np.einsum("khd,jd->khj", q.error**2, rows.value**2)
        moved += np.einsum("khd,jd->khj", q.value**2, rows.error**2)
        summed = self.arithmetic.accumulate * np.sqrt(q.value.shape[-1]) * size
        e_scores = root(np.sqrt(moved) * scale, summed)
        if SAFETY * float(e_scores.max()) > 1:
            raise UsageError(
                "the scores of this model are too uncertain in this dtype for an error analysis "
                "to first order: check fewer stages, or float32"
            )
        highest = np.maximum(scores.max(-1), sink)
        masses = np.exp(scores - highest[..., None])
        total = masses.sum(-1) + np.exp(sink - highest)
        p = masses / total[..., None]
        out = np.einsum("khj,jd->khd", p, rows.value)
        pull = (rows.value[None, None] - out[:, :, None]) ** 2
        from_scores = np.sqrt(np.einsum("khj,khjd->khd", (p * e_scores) ** 2, pull))
        from_rows = np.einsum("khj,jd->khd", p, rows.error)
        rounded = self.arithmetic.store * np.sqrt(np.einsum("khj,jd->khd", p**2, rows.value**2))
        return self.stored(out, from_scores, from_rows, rounded)

    def sum(self, x: Approx, y: Approx) -> Approx:
        """x + y."""
        return self.stored(x.value + y.value, x.error, y.error)

    def sigmoid(self, x: Approx) -> Approx:
        """1 / (1 + e^-x)."""
        y = 1 / (1 + np.exp(-x.value))
        return self.stored(y, y * (1 - y) * x.error)

    def tanh(self, x: Approx) -> Approx:
        """The hyperbolic tangent."""
        y = np.tanh(x.value)
        return self.stored(y, (1 - y * y) * x.error)

    def product(self, x: Approx, y: Approx) -> Approx:
        """x · y, element by element."""
        return self.stored(x.value * y.value, x.error * y.value, x.value * y.error)

    def silu(self, x: Approx) -> Approx:
        """x · sigmoid(x)."""
        s = 1 / (1 + np.exp(-x.value))
        return self.stored(x.value * s, s * (1 + x.value * (1 - s)) * x.error)

    # ---- the model -------------------------------------------------------------------------------

    def context(self, captured: object) -> Approx:
        """Context vectors [rows, hidden] of captured rows [rows][layers][streams · hidden]."""
        rows = self.stored(np.array(captured, dtype=np.float64))
        n, layers, _ = rows.value.shape
        split = (n, layers, self.shape.streams, -1)
        mean = self.stored(
            rows.value.reshape(split).mean(2),
            np.sqrt((rows.error.reshape(split) ** 2).sum(2)) / self.shape.streams,
        )
        flat = Approx(mean.value.reshape(n, -1), mean.error.reshape(n, -1))
        return self.norm(self.linear(self.weights.main_proj, flat), self.weights.main_norm)

    def window_rows(self, captured: object, frames: Sequence[int]) -> Approx:
        """What the windows store, [rows, stages, head_dim]."""
        context, at = self.context(captured), np.array(frames, dtype=np.int64)
        rows = [self.key_value(stage, context, at) for stage in self.weights.stages]
        spread = [Approx(row.value[:, None], row.error[:, None]) for row in rows]
        return joined(spread, 1)

    def key_value(self, stage: StageWeights, x: Approx, positions: Positions) -> Approx:
        """The row that is key and value at once."""
        return self.rotary(self.norm(self.linear(stage.wkv, x), stage.kv_norm), positions)

    def block_hidden(self, windows: Sequence[object], start: int, bonus: int) -> Approx:
        """h_k of one request, [K, hidden]; windows: [stages][frames][head_dim]."""
        shape, weights = self.shape, self.weights
        tokens = [bonus] + [shape.noise_token] * (shape.block - 1)
        x = exact([weights.embedding[token] for token in tokens])
        positions = np.arange(start + 1, start + 1 + shape.block, dtype=np.int64)
        for stage, window in zip(weights.stages, windows, strict=True):
            cells = exact(window)
            cells = Approx(*(part.reshape(-1, shape.head_dim) for part in cells))
            normed = self.norm(x, stage.attn_norm)
            block = self.key_value(stage, normed, positions)
            q = self._queries(stage, normed, positions)
            out = self.attention(q, joined([cells, block], 0), np.array(stage.sink))
            x = self.sum(x, self._output(stage, self.rotary(out, positions, inverse=True)))
            normed = self.norm(x, stage.ffn_norm)
            opened = self.silu(self.linear(stage.gate, normed))
            wide = self.product(opened, self.linear(stage.up, normed))
            x = self.sum(x, self.linear(stage.down, wide))
        return self.norm(x, weights.final_norm)

    def _queries(self, stage: StageWeights, x: Approx, positions: Positions) -> Approx:
        low = self.norm(self.linear(stage.wq_a, x), stage.q_norm)
        flat = self.linear(stage.wq_b, low)
        split = (-1, self.shape.heads, self.shape.head_dim)
        heads = Approx(flat.value.reshape(split), flat.error.reshape(split))
        return self.rotary(self.norm(heads, np.ones(self.shape.head_dim)), positions)

    def _output(self, stage: StageWeights, heads: Approx) -> Approx:
        split = (len(heads.value), self.shape.groups, -1)
        parts = Approx(heads.value.reshape(split), heads.error.reshape(split))
        low = [
            self.linear(weight, Approx(parts.value[:, g], parts.error[:, g]))
            for g, weight in enumerate(stage.wo_a)
        ]
        return self.linear(stage.wo_b, joined(low, 1))

    def logits(self, hidden: Approx, fed: Sequence[int]) -> Approx:
        """Logits with the bias of the tokens fed, [K, V]."""
        base = self.linear(self.weights.head, hidden)
        w1 = exact([self.weights.w1[token] for token in fed])
        latent = self._recurrent(hidden, w1) if self.shape.rnn else w1
        return self.sum(base, self.linear(self.weights.w2, latent))

    def _recurrent(self, hidden: Approx, w1: Approx) -> Approx:
        """What the recurrent head multiplies by W2, [K, markov_rank]."""
        weights, outputs = self.weights, []
        state = exact(np.zeros((1, self.shape.markov_rank)))
        for k in range(len(hidden.value)):
            rows = [Approx(x.value[k : k + 1], x.error[k : k + 1]) for x in (w1, hidden)]
            z = joined([state, *rows], 1)
            gate = self.sigmoid(self.linear(weights.rnn_gate, z))
            candidate = self.tanh(self.linear(weights.rnn_candidate, z))
            outputs.append(self.tanh(self.linear(weights.rnn_output, z)))
            state = self.stored(
                gate.value * state.value + (1 - gate.value) * candidate.value,
                gate.error * (state.value - candidate.value),
                gate.value * state.error,
                (1 - gate.value) * candidate.error,
            )
        return joined(outputs, 0)

    def confidence(self, hidden: Approx, fed: Sequence[int]) -> Approx:
        """Confidence logits, [K]."""
        w1 = exact([self.weights.w1[token] for token in fed])
        found = self.linear([self.weights.confidence], joined([hidden, w1], 1))
        return Approx(found.value[:, 0], found.error[:, 0])
