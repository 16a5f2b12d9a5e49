"""What turns a block's logits into drafts: sequential heads and confidence (section 8b)."""

from __future__ import annotations

import math
from typing import Protocol

from draftproof.reference.numeric.operations import Row, Vector, dot, linear, sigmoid
from draftproof.reference.numeric.shape import Shape, Weights


class SequentialHead(Protocol):
    """Adds to the logits of position k what the tokens before it say. One object per block."""

    def bias(self, prev: int, hidden: Vector) -> Row:
        """The bias of the next position, [V]; prev: the token before it, hidden: its h_k."""


class MarkovHead:
    """Only the token before counts: W1[prev] · W2."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights

    def bias(self, prev: int, hidden: Vector) -> Row:
        """W1[prev] · W2; the hidden row is not looked at."""
        return linear(self.weights.w2, self.weights.w1[prev])


class RnnHead:
    """All tokens before count, through a state s of markov_rank numbers that starts at 0."""

    def __init__(self, weights: Weights, markov_rank: int) -> None:
        self.weights = weights
        self.state = [0.0] * markov_rank

    def bias(self, prev: int, hidden: Vector) -> Row:
        """The bias from z = [s; W1[prev]; h_k], and the next state."""
        weights = self.weights
        z = [*self.state, *weights.w1[prev], *hidden]
        gates = [sigmoid(value) for value in linear(weights.rnn_gate, z)]
        candidates = [math.tanh(value) for value in linear(weights.rnn_candidate, z)]
        output = [math.tanh(value) for value in linear(weights.rnn_output, z)]
        self.state = [
            gate * old + (1 - gate) * new
            for gate, old, new in zip(gates, self.state, candidates, strict=True)
        ]
        return linear(weights.w2, output)


def sequential_head(shape: Shape, weights: Weights) -> SequentialHead:
    """The head that a block of this model starts with."""
    return RnnHead(weights, shape.markov_rank) if shape.rnn else MarkovHead(weights)


def confidence(weights: Weights, hidden: Vector, prev: int) -> float:
    """The confidence logit of a position: w · [h_k ; W1[prev_k]]."""
    return dot(weights.confidence, [*hidden, *weights.w1[prev]])


def argmax(logits: Vector) -> int:
    """The first of the largest."""
    return max(range(len(logits)), key=lambda token: (logits[token], -token))
