"""Penalties, and the choice of a token (section 19): on the device, without waiting for it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from draftproof.gpu.constants import one_hot, ramp


class Asked(NamedTuple):
    """What rows ask for; float32 of one shape each."""

    repetition: Tensor
    presence: Tensor
    frequency: Tensor

    def of(self, rows: slice) -> Asked:
        """Some of the rows."""
        return Asked(*(values[rows] for values in self))

    def rows(self) -> Asked:
        """The same for all logit rows of a generation, [G, 1] each."""
        return Asked(*(values.unsqueeze(1) for values in self))


class Choice(NamedTuple):
    """What the target's tokens are chosen from.

    contexts: float32 [C, V]; generations: float32 [G, R, V]; asked: of contexts, then generations.
    """

    contexts: Tensor
    generations: Tensor
    asked: Asked


def history(counts: Tensor, drafts: Tensor) -> Tensor:
    """What each logit row has seen of the output: each draft only those behind it.

    counts: int64 [G, V], of what is committed; drafts: int64 [G, r]. Returns float32 [G, R, V].
    """
    drafted = one_hot(drafts, counts.shape[1]).cumsum(1)
    return counts.unsqueeze(1) + pad(drafted, (0, 0, 1, 0))


def penalised(logits: Tensor, counts: Tensor, prompt: Tensor, asked: Asked) -> Tensor:
    """Logits under penalties, float32 [..., V].

    logits, counts (of the output), prompt (bool: is it in there) have one shape; asked: that shape
    without the last dimension, or one that stretches to it.
    """
    repetition, presence, frequency = (values.unsqueeze(-1) for values in asked)
    there = counts > 0
    repeated = torch.where(logits > 0, logits / repetition, logits * repetition)
    logits = torch.where(there | prompt, repeated, logits)
    return logits - counts * frequency - there * presence


def chosen(scores: Tensor, allowed: Tensor | None) -> Tensor:
    """The first of the highest scores [..., V] that are allowed, int64; None: all are."""
    if allowed is not None:
        scores = torch.where(allowed, scores, -torch.inf)
    return scores.argmax(-1)


def count(counts: Tensor, seq_slots: Tensor, tokens: Tensor, kept: Tensor) -> None:
    """Count the first tokens of each row in its sequence slot.

    counts: int64 [S + 1, V], changed in place; seq_slots: int64 [N]; tokens: int64 [N, R]; kept:
    int64 [N], how many of them.
    """
    places = seq_slots.unsqueeze(1) * counts.shape[1] + tokens
    new = ramp(tokens.shape[1], tokens.device) < kept.unsqueeze(1)
    counts.view(-1).scatter_add_(0, places.flatten(), new.to(torch.int64).flatten())
