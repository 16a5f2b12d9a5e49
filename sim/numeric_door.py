"""The door of `check_numeric`, and the states that steps start from.

A factory `make(sizes, weights, dtype)` gets plain data, the fields of `Shape` by name and those of
`Weights` as nested lists, all exact in bfloat16, and returns a `NumericModel`: an object with two
methods, which take lists and return nested lists or anything with `.tolist()`. What an
implementation cannot show is None; the report says what was therefore not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from draftproof.reference.numeric.model import DraftModel
from draftproof.reference.numeric.shape import Shape, Weights, rounded
from draftproof.reference.vocabulary import Matrix


class Proposed(Protocol):
    """What an implementation proposes: nested lists or tensors; None: it cannot show that."""

    @property
    def hidden(self) -> Matrix:
        """h_k, [G][K][hidden]."""

    @property
    def logits(self) -> Matrix:
        """With the bias of the sequential head, [G][K][V]."""

    @property
    def tokens(self) -> Matrix:
        """[G][K]."""

    @property
    def confidence(self) -> Matrix:
        """Confidence logits, [G][K]."""


class NumericModel(Protocol):
    """A draft model behind the door. Lists in, nested lists or tensors out."""

    def window_rows(self, captured: Sequence[Any], frames: Sequence[int]) -> Matrix:
        """What it stores of captured rows [T][layers][streams · hidden] at frames [T].

        Returns [T][stages][head_dim], norm and rotary applied, or None if it cannot show that.
        """

    def draft(
        self,
        windows: Sequence[Any],
        starts: Sequence[int],
        bonuses: Sequence[int],
        given: Sequence[Sequence[int]] | None = None,
    ) -> Proposed:
        """Draft a block for each of G requests by argmax.

        windows: per request [stages][visible frames][head_dim], oldest first, the last frame
        being its start; given: [G][K], the token before each position, to be fed instead of the
        bonus and the chain's own drafts. A fused chain that cannot be fed can be run once per
        position, on the logits from there on, with given[g][k] as its bonus.
        """


MakeNumericModel = Callable[[Mapping[str, Any], Mapping[str, Any], str], NumericModel]


@dataclass(frozen=True, slots=True)
class NumericState:
    """What a step starts from, and captured rows whose window rows are compared too.

    windows: per request [stages][visible frames][head_dim]; starts, bonuses: [G];
    captured: [T][layers][streams · hidden]; frames: [T]. All numbers are exact in bfloat16.
    """

    windows: Sequence[Any]
    starts: Sequence[int]
    bonuses: Sequence[int]
    captured: Sequence[Any]
    frames: Sequence[int]


def random_state(shape: Shape, weights: Weights, seed: int, highest: int = 8000) -> NumericState:
    """Six requests: windows full, partly full, empty, wrapped; positions from 1 to `highest`.

    Captured rows come in two sizes. RMSNorm forgets the size of a row, and there are two on the way
    to a window row: only rows so small that eps rules in the first, and still counts in the second,
    tell a mean of streams from a sum.
    """
    random, model, w = Random(seed), DraftModel(shape, weights), shape.window
    starts = [1, w, w + 2, 3 * w + 1, max(w, highest // 2 + 1), highest]
    valid = [1, w, w, 0, w, max(1, w // 2)]

    def captured(size: float) -> list[list[float]]:
        width = shape.streams * shape.hidden
        layers = range(shape.captured_layers)
        return [[rounded(random.gauss(0, size)) for _ in range(width)] for _ in layers]

    windows = []
    for start, count in zip(starts, valid, strict=True):
        visible = range(start - count + 1, start + 1)
        rows = [model.window_rows(captured(1.0), frame) for frame in visible]
        windows.append(
            [[[rounded(x) for x in row[s]] for row in rows] for s in range(shape.stages)]
        )
    return NumericState(
        windows=windows,
        starts=starts,
        bonuses=[random.randrange(shape.vocab) for _ in starts],
        captured=[captured(size) for size in (1.0, 2e-6, 1.0, 2e-6)],
        frames=[1, w, highest // 2, highest],
    )
