"""The draft model behind the door of `check_numeric`: nested lists in, tensors out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from draftproof.gpu.draft_model.heads import fed_tokens
from draftproof.gpu.draft_model.model import EAGER, DraftModel, Operations
from draftproof.gpu.draft_model.shape import DraftShape, weights_from_lists

NAN = float("nan")


class Proposal(NamedTuple):
    """Per request and position: h_k [G, K, H], logits with bias [G, K, V], token, confidence."""

    hidden: Tensor
    logits: Tensor
    tokens: Tensor
    confidence: Tensor


class NumericDoor:
    """Lays windows out as a worker keeps them, slots not in request order, the rest poisoned."""

    def __init__(self, model: DraftModel, device: torch.device | str) -> None:
        self.model = model
        self.device = device
        self.dtype = model.weights.embedding.dtype

    def window_rows(self, captured: Sequence[Any], frames: Sequence[int]) -> Tensor:
        """[T, stages, D]; captured: per row [layers][streams · H]; frames: [T]."""
        rows = torch.tensor(captured, dtype=self.dtype, device=self.device)
        return self.model.window_rows(rows.unbind(1), self._ints(frames))

    def draft(
        self,
        windows: Sequence[Sequence[Sequence[Sequence[float]]]],
        starts: Sequence[int],
        bonuses: Sequence[int],
        given: Sequence[Sequence[int]] | None = None,
    ) -> Proposal:
        """Draft a block of every request.

        windows: per request [stages][visible frames][D], oldest first, the last at its start;
        given: [G][K], tokens to be fed instead of the chain's own.
        """
        model = self.model
        cells, slots = self._laid_out(windows, starts)
        start, bonus = self._ints(starts), self._ints(bonuses)
        valid = self._ints([len(stages[0]) for stages in windows])
        hidden, logits, tokens, confidence = model.draft(cells, slots, start, valid, bonus)
        fed = fed_tokens(bonus, tokens)
        if given is not None:
            fed = self._ints(given)
            tokens = self._restarted(logits, hidden, fed)
            confidence = model.confidence(hidden, fed)
        return Proposal(hidden, model.logits_after(logits, hidden, fed), tokens, confidence)

    def _restarted(self, logits: Tensor, hidden: Tensor, fed: Tensor) -> Tensor:
        """The token of every position after a given one, int64 [G, K].

        The Markov chain itself is run, as G · K chains of one position. The recurrent head would
        need its state, so there the logits decide.
        """
        if self.model.shape.rnn:
            return self.model.logits_after(logits, hidden, fed).argmax(-1)
        singles = [x.flatten(0, 1).unsqueeze(1) for x in (logits, hidden)]
        return self.model.chain(singles[0], singles[1], fed.flatten()).view_as(fed)

    def _laid_out(
        self, windows: Sequence[Sequence[Sequence[Sequence[float]]]], starts: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """The window buffer [S + 1, stages, W, D], and the slot of each request, int64 [G]."""
        shape, requests = self.model.shape, len(windows)
        size = (requests + 2, shape.stages, shape.window, shape.head_dim)
        cells = torch.full(size, NAN, dtype=self.dtype, device=self.device)
        slots = [requests - g for g in range(requests)]
        for slot, start, stages in zip(slots, starts, windows, strict=True):
            for stage, rows in enumerate(stages):
                for age, row in enumerate(reversed(rows)):
                    column = (start - age) % shape.window
                    cells[slot, stage, column] = torch.tensor(row, device=self.device)
        return cells, self._ints(slots)

    def _ints(self, numbers: Sequence[Any]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self.device)


def make(
    sizes: Mapping[str, Any],
    weights: Mapping[str, Any],
    dtype: str = "float32",
    device: torch.device | str = "cpu",
    operations: Operations = EAGER,
) -> NumericDoor:
    """A draft model of given sizes and weights (nested lists), in "float32" or "bfloat16"."""
    shape = DraftShape(**sizes)
    kind: torch.dtype = getattr(torch, dtype)
    model = DraftModel(shape, weights_from_lists(weights, shape, kind, device), operations)
    return NumericDoor(model, device)
