"""From a block's logits to its drafts: Markov and recurrent head, confidence (section 8b).

G requests, K positions, V = vocab, M = markov_rank, H = hidden. Logits are float32; W1, W2 and
hidden rows are of the model's dtype, and each bias is rounded to it once before it is added in
float32. Loops run over K, a constant: a whole chain is one graph without a look at the host.

Public source, read for facts: TensorRT-LLM, `_torch/models/dspark/heads.py`. Its recurrent head
has a bias vector in the joint projection; section 8b and the paper have none, nor has this one.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear

from draftproof.gpu.constants import one_hot
from draftproof.gpu.rejection import draw


class Drawing(NamedTuple):
    """How the tokens of sampled rows are drawn (sections 6 and 19).

    greedy: bool [G], rows that take the argmax; temperature: float32 [G], positive, of no
    meaning for greedy rows; uniforms: float32 [G, K] in (0, 1].
    """

    greedy: Tensor
    temperature: Tensor
    uniforms: Tensor


class RnnWeights(NamedTuple):
    """The recurrent head: gate, candidate, output, each [M, 2M + H], of z = [s; W1[prev]; h]."""

    gate: Tensor
    candidate: Tensor
    output: Tensor


def markov_bias(prev: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """W1[prev] · W2, float32 [..., V]; prev: int64 [...]; w1, w2: [V, M]."""
    return linear(embedding(prev, w1), w2).float()


def markov_chain(logits: Tensor, bonus: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """The greedy chain: token k is the argmax of logits_k + W1[token k - 1] · W2.

    logits: float32 [G, K, V], without bias; bonus: int64 [G], the token before position 0;
    w1, w2: [V, M]. Of equal logits the first wins. Returns tokens, int64 [G, K].
    """
    prev, tokens = bonus, []
    for k in range(logits.shape[1]):
        prev = (logits[:, k] + markov_bias(prev, w1, w2)).argmax(-1)
        tokens.append(prev)
    return torch.stack(tokens, 1)


def markov_chain_sampled(
    logits: Tensor, bonus: Tensor, w1: Tensor, w2: Tensor, drawing: Drawing
) -> tuple[Tensor, Tensor]:
    """The chain with drawn tokens: as `markov_chain`, each token from softmax(logits / T).

    Returns tokens, int64 [G, K], and the law each was drawn from, float32 [G, K, V], one-hot
    where it was an argmax.
    """
    prev, tokens, laws = bonus, [], []
    for k in range(logits.shape[1]):
        prev, law = pick(logits[:, k] + markov_bias(prev, w1, w2), drawing, k)
        tokens.append(prev)
        laws.append(law)
    return torch.stack(tokens, 1), torch.stack(laws, 1)


def pick(logits: Tensor, drawing: Drawing, k: int) -> tuple[Tensor, Tensor]:
    """One token per row and its law; logits: float32 [G, V]. Returns int64 [G], float32 [G, V]."""
    best = logits.argmax(-1)
    temperature = torch.where(drawing.greedy, 1.0, drawing.temperature)
    soft = torch.softmax(logits / temperature.unsqueeze(-1), -1)
    law = torch.where(drawing.greedy.unsqueeze(-1), one_hot(best, logits.shape[-1]), soft)
    drawn = draw(law, drawing.uniforms[:, k], law)
    return torch.where(drawing.greedy, best, drawn), law


def markov_logits(logits: Tensor, prev: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """Logits with the bias of given tokens, float32 [G, K, V]; prev: int64 [G, K]."""
    return logits + markov_bias(prev, w1, w2)


def rnn_step(
    state: Tensor, prev: Tensor, hidden: Tensor, w1: Tensor, w2: Tensor, weights: RnnWeights
) -> tuple[Tensor, Tensor]:
    """One position of the recurrent head.

    g = sigmoid(W_g z), s' = g ⊙ s + (1 - g) ⊙ tanh(W_c z), bias = W2 · tanh(W_o z).
    state: [G, M] of the dtype, 0 before a block; prev: int64 [G]; hidden: [G, H].
    Returns the next state [G, M] and the bias, float32 [G, V].
    """
    z = torch.cat([state, embedding(prev, w1), hidden], -1)
    gate = torch.sigmoid(linear(z, weights.gate).float())
    candidate = torch.tanh(linear(z, weights.candidate).float())
    output = torch.tanh(linear(z, weights.output).float()).to(state.dtype)
    advanced = gate * state.float() + (1 - gate) * candidate
    return advanced.to(state.dtype), linear(output, w2).float()


def rnn_chain(
    logits: Tensor, hidden: Tensor, bonus: Tensor, w1: Tensor, w2: Tensor, weights: RnnWeights
) -> Tensor:
    """The greedy chain of the recurrent head, int64 [G, K]; hidden: [G, K, H], else as above."""
    prev, tokens = bonus, []
    state = hidden.new_zeros(hidden.shape[0], w1.shape[1])
    for k in range(logits.shape[1]):
        state, bias = rnn_step(state, prev, hidden[:, k], w1, w2, weights)
        prev = (logits[:, k] + bias).argmax(-1)
        tokens.append(prev)
    return torch.stack(tokens, 1)


def rnn_logits(
    logits: Tensor, hidden: Tensor, prev: Tensor, w1: Tensor, w2: Tensor, weights: RnnWeights
) -> Tensor:
    """Logits with the recurrent bias of given tokens, float32 [G, K, V]; prev: int64 [G, K]."""
    rows = []
    state = hidden.new_zeros(hidden.shape[0], w1.shape[1])
    for k in range(logits.shape[1]):
        state, bias = rnn_step(state, prev[:, k], hidden[:, k], w1, w2, weights)
        rows.append(logits[:, k] + bias)
    return torch.stack(rows, 1)


def fed_tokens(bonus: Tensor, tokens: Tensor) -> Tensor:
    """The token before each position: the bonus, then the drafts but the last, int64 [G, K]."""
    return torch.cat([bonus.unsqueeze(1), tokens[:, :-1]], 1)


def confidence(hidden: Tensor, prev: Tensor, w1: Tensor, weight: Tensor) -> Tensor:
    """Confidence logits w · [h_k ; W1[prev_k]], float32 [G, K].

    hidden: [G, K, H]; prev: int64 [G, K]; weight: float32 [H + M].
    """
    features = torch.cat([hidden, embedding(prev, w1)], -1)
    return features.float() @ weight
