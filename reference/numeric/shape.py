"""What a draft model is made of: its sizes and its weights (section 8b)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from draftproof.reference.numeric.operations import Matrix, Vector


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a draft model; any will do that fit each other.

    block: K; window: W; stages; vocab: V; hidden: width of the residual; captured_layers: layers
    of the target whose hidden states are captured, each as `streams` residual streams.
    heads, head_dim, rope_head_dim (its last components, even): the attention; q_rank: width of
    the low-rank query; groups, o_rank: the grouped output and its width per group.
    ffn: width of the feed-forward; markov_rank; noise_token: input of the block rows 1 .. K - 1.
    rnn: the recurrent head instead of the Markov head.
    """

    block: int = 5
    window: int = 8
    stages: int = 2
    vocab: int = 64
    hidden: int = 32
    captured_layers: int = 2
    streams: int = 4
    heads: int = 4
    head_dim: int = 16
    rope_head_dim: int = 8
    q_rank: int = 16
    groups: int = 2
    o_rank: int = 8
    ffn: int = 32
    markov_rank: int = 8
    noise_token: int = 1
    rnn: bool = False
    eps: float = 1e-6
    rope_base: float = 10000.0

    def __post_init__(self) -> None:
        if self.heads % self.groups:
            raise ValueError(f"{self.heads} heads do not split into {self.groups} equal groups")
        if self.rope_head_dim % 2 or self.rope_head_dim > self.head_dim:
            raise ValueError("rope_head_dim must be even and at most head_dim")
        if not 0 <= self.noise_token < self.vocab:
            raise ValueError(f"the noise token must be a token of the {self.vocab} there are")


@dataclass(frozen=True, slots=True)
class StageWeights:
    """One stage. R = q_rank, D = head_dim, H = heads, F = ffn.

    attn_norm: [hidden]; wq_a: [R][hidden]; q_norm: [R]; wq_b: [H · D][R]; wkv: [D][hidden];
    kv_norm: [D]; sink: [H]; wo_a: [groups][o_rank][H · D / groups];
    wo_b: [hidden][groups · o_rank]; ffn_norm: [hidden]; gate, up: [F][hidden]; down: [hidden][F].
    """

    attn_norm: Vector
    wq_a: Matrix
    q_norm: Vector
    wq_b: Matrix
    wkv: Matrix
    kv_norm: Vector
    sink: Vector
    wo_a: Sequence[Matrix]
    wo_b: Matrix
    ffn_norm: Vector
    gate: Matrix
    up: Matrix
    down: Matrix


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights of a draft model. M = markov_rank, V = vocab.

    embedding, head: [V][hidden], the target's own; main_proj: [hidden][layers · hidden];
    main_norm, final_norm: [hidden]; w1, w2: [V][M], the bias of a token after another is
    W2[token] · W1[prev]; confidence: [hidden + M]; rnn_gate, rnn_candidate, rnn_output:
    [M][2M + hidden], or empty without the recurrent head.
    """

    embedding: Matrix
    head: Matrix
    main_proj: Matrix
    main_norm: Vector
    final_norm: Vector
    w1: Matrix
    w2: Matrix
    confidence: Vector
    rnn_gate: Matrix
    rnn_candidate: Matrix
    rnn_output: Matrix
    stages: Sequence[StageWeights]


SIGNIFICANT_BITS = 8
"""Those of bfloat16: weights and stored rows with no more are the same numbers in every dtype."""


def rounded(x: float, bits: int = SIGNIFICANT_BITS) -> float:
    """The nearest number with so many significant bits, ties to even."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(round(math.ldexp(mantissa, bits)), exponent - bits)


def random_weights(shape: Shape, seed: int) -> Weights:
    """Weights from a seed, each exact in bfloat16.

    Matrices keep the size of what they multiply (entries of variance 1 / inputs), norms are near
    one, sinks of the size of scores, and the Markov bias is larger than the logits it corrects, so
    that no part of the model can be left out without showing.
    """
    random = Random(seed)

    def matrix(outputs: int, inputs: int, size: float = 1.0) -> Matrix:
        scale = size / math.sqrt(inputs)
        return [[rounded(random.gauss(0, scale)) for _ in range(inputs)] for _ in range(outputs)]

    def norm(width: int) -> Vector:
        return [rounded(random.gauss(1, 0.25)) for _ in range(width)]

    m, hidden = shape.markov_rank, shape.hidden
    gates = m if shape.rnn else 0
    return Weights(
        embedding=matrix(shape.vocab, hidden, math.sqrt(hidden)),
        head=matrix(shape.vocab, hidden),
        main_proj=matrix(hidden, shape.captured_layers * hidden),
        main_norm=norm(hidden),
        final_norm=norm(hidden),
        w1=matrix(shape.vocab, m, math.sqrt(m)),
        w2=matrix(shape.vocab, m, 5.0 if shape.rnn else 3.0),
        confidence=matrix(1, hidden + m)[0],
        rnn_gate=matrix(gates, 2 * m + hidden),
        rnn_candidate=matrix(gates, 2 * m + hidden),
        rnn_output=matrix(gates, 2 * m + hidden),
        stages=[_random_stage(shape, matrix, norm, random) for _ in range(shape.stages)],
    )


def _random_stage(
    shape: Shape,
    matrix: Callable[[int, int], Matrix],
    norm: Callable[[int], Vector],
    random: Random,
) -> StageWeights:
    width = shape.heads * shape.head_dim
    return StageWeights(
        attn_norm=norm(shape.hidden),
        wq_a=matrix(shape.q_rank, shape.hidden),
        q_norm=norm(shape.q_rank),
        wq_b=matrix(width, shape.q_rank),
        wkv=matrix(shape.head_dim, shape.hidden),
        kv_norm=norm(shape.head_dim),
        sink=[rounded(random.gauss(1, 1)) for _ in range(shape.heads)],
        wo_a=[matrix(shape.o_rank, width // shape.groups) for _ in range(shape.groups)],
        wo_b=matrix(shape.hidden, shape.groups * shape.o_rank),
        ffn_norm=norm(shape.hidden),
        gate=matrix(shape.ffn, shape.hidden),
        up=matrix(shape.ffn, shape.hidden),
        down=matrix(shape.hidden, shape.ffn),
    )
