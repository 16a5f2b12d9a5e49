"""Sizes and weights of the draft model (section 8b)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class DraftShape:
    """The sizes of a draft model.

    block: K; window: W; stages; vocab: V; hidden: H; captured_layers: L, captured layers of the
    target, each with `streams` residual streams; heads, head_dim: N, D; rope_head_dim: the last
    components of a head, an even number of them, that rotary turns; q_rank: R; groups, o_rank: of
    the output projection, rank per group; ffn: F; markov_rank: M; noise_token: the input of block
    rows 1 .. K - 1; rnn: the recurrent head instead of the Markov head; max_position: the largest
    position that is ever turned, start + K at most.
    """

    block: int
    window: int
    stages: int
    vocab: int
    hidden: int
    captured_layers: int
    streams: int
    heads: int
    head_dim: int
    rope_head_dim: int
    q_rank: int
    groups: int
    o_rank: int
    ffn: int
    markov_rank: int
    noise_token: int
    rnn: bool = False
    eps: float = 1e-6
    rope_base: float = 10000.0
    max_position: int = 8192


@dataclass(frozen=True, slots=True)
class DraftWeights:
    """All weights, in the model's dtype unless float32 is said; what a stage owns is stacked.

    Outside the stages: embedding, head [V, H], the target's own; main_proj [H, L · H]; main_norm,
    final_norm [H]; w1, w2 [V, M]; confidence float32 [H + M]; rnn_gate, rnn_candidate,
    rnn_output [M, 2M + H], or [0, ...] without the recurrent head.
    Per stage, after a first dimension of stages: attn_norm, ffn_norm [H]; wq_a [R, H];
    q_norm [R]; wq_b [N · D, R]; wkv [D, H]; kv_norm [D]; sink float32 [N];
    wo_a [groups, o_rank, N · D / groups]; wo_b [H, groups · o_rank]; gate, up [F, H]; down [H, F].
    """

    embedding: Tensor
    head: Tensor
    main_proj: Tensor
    main_norm: Tensor
    final_norm: Tensor
    w1: Tensor
    w2: Tensor
    confidence: Tensor
    rnn_gate: Tensor
    rnn_candidate: Tensor
    rnn_output: Tensor
    attn_norm: Tensor
    wq_a: Tensor
    q_norm: Tensor
    wq_b: Tensor
    wkv: Tensor
    kv_norm: Tensor
    sink: Tensor
    wo_a: Tensor
    wo_b: Tensor
    ffn_norm: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor


IN_FLOAT32 = ("confidence", "sink")
"""Weights that stay in float32 in every model, as in the public source."""


def weight_shapes(shape: DraftShape) -> dict[str, tuple[int, ...]]:
    """The shape of every weight, by name."""
    stages, hidden, rank = shape.stages, shape.hidden, shape.markov_rank
    width = shape.heads * shape.head_dim
    joint = (rank if shape.rnn else 0, 2 * rank + hidden)
    return {
        "embedding": (shape.vocab, hidden),
        "head": (shape.vocab, hidden),
        "main_proj": (hidden, shape.captured_layers * hidden),
        "main_norm": (hidden,),
        "final_norm": (hidden,),
        "w1": (shape.vocab, rank),
        "w2": (shape.vocab, rank),
        "confidence": (hidden + rank,),
        "rnn_gate": joint,
        "rnn_candidate": joint,
        "rnn_output": joint,
        "attn_norm": (stages, hidden),
        "wq_a": (stages, shape.q_rank, hidden),
        "q_norm": (stages, shape.q_rank),
        "wq_b": (stages, width, shape.q_rank),
        "wkv": (stages, shape.head_dim, hidden),
        "kv_norm": (stages, shape.head_dim),
        "sink": (stages, shape.heads),
        "wo_a": (stages, shape.groups, shape.o_rank, width // shape.groups),
        "wo_b": (stages, hidden, shape.groups * shape.o_rank),
        "ffn_norm": (stages, hidden),
        "gate": (stages, shape.ffn, hidden),
        "up": (stages, shape.ffn, hidden),
        "down": (stages, hidden, shape.ffn),
    }


def random_weights(
    shape: DraftShape, dtype: torch.dtype, device: torch.device | str, seed: int = 0
) -> DraftWeights:
    """Weights made on the device, for models too large for lists of numbers.

    Matrices have entries of variance 1 / inputs, norms are near 1, sinks are standard normal.
    """
    generator = torch.Generator(device).manual_seed(seed)
    made: dict[str, Tensor] = {}
    for name, size in weight_shapes(shape).items():
        noise = torch.randn(size, generator=generator, device=device, dtype=torch.float32)
        if name.endswith("norm"):
            noise = 1 + noise / 4
        elif name not in ("sink", "embedding", "w1"):
            noise *= size[-1] ** -0.5
        made[name] = noise.to(torch.float32 if name in IN_FLOAT32 else dtype)
    return DraftWeights(**made)


def weights_from_lists(
    numbers: Mapping[str, Any], shape: DraftShape, dtype: torch.dtype, device: torch.device | str
) -> DraftWeights:
    """Weights from nested lists under the same names; `stages` is a list, one mapping for each."""
    sizes = weight_shapes(shape)
    made: dict[str, Tensor] = {}
    for field in fields(DraftWeights):
        name = field.name
        found = numbers[name] if name in numbers else [stage[name] for stage in numbers["stages"]]
        wanted = torch.float32 if name in IN_FLOAT32 else dtype
        made[name] = torch.tensor(found, dtype=wanted, device=device).view(sizes[name])
    return DraftWeights(**made)
