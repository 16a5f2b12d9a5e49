"""Draft models that compute the truth, and show it well or badly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any

from draftproof.reference.numeric.model import Block, DraftModel
from draftproof.reference.numeric.shape import Shape, StageWeights, Weights
from draftproof.sim.numeric_error import ARITHMETIC


@dataclass
class Listed:
    """A proposal in nested lists."""

    hidden: Any
    logits: Any
    tokens: Any
    confidence: Any


class Exact:
    """An implementation that computes the truth; subclasses change what they show."""

    def __init__(self, sizes: Mapping[str, Any], weights: Mapping[str, Any], dtype: str) -> None:
        assert dtype in ARITHMETIC
        stages = [StageWeights(**stage) for stage in weights["stages"]]
        self.model = DraftModel(Shape(**sizes), Weights(**{**weights, "stages": stages}))

    def window_rows(self, captured: Sequence[Any], frames: Sequence[int]) -> Any:
        return [self.model.window_rows(*row) for row in zip(captured, frames, strict=True)]

    def draft(
        self,
        windows: Sequence[Any],
        starts: Sequence[int],
        bonuses: Sequence[int],
        given: Sequence[Sequence[int]] | None = None,
    ) -> Any:
        fed = given if given is not None else [None] * len(windows)
        rows = zip(windows, starts, bonuses, fed, strict=True)
        blocks = [self.block(*row) for row in rows]
        return Listed(
            [block.hidden for block in blocks],
            [block.logits for block in blocks],
            [block.tokens for block in blocks],
            [block.confidence for block in blocks],
        )

    def block(self, window: Any, start: int, bonus: int, given: Sequence[int] | None) -> Block:
        return self.model.draft(window, start, bonus, given)


class Second(Exact):
    """Takes the second best token where it is at most `within` worse."""

    within = 0.0

    def block(self, window: Any, start: int, bonus: int, given: Sequence[int] | None) -> Block:
        fed, tokens = [bonus], list[int]()
        while len(tokens) < self.model.shape.block:
            padded = (fed + [0] * self.model.shape.block)[: self.model.shape.block]
            block = self.model.draft(window, start, bonus, given or padded)
            logits = block.logits[len(tokens)]
            best, second = sorted(range(len(logits)), key=lambda t: -logits[t])[:2]
            near = logits[best] - logits[second] <= self.within
            tokens.append(second if near else best)
            fed.append(tokens[-1])
        return replace(block, tokens=tokens)


class SecondWithin(Second):
    within = 0.03


class SecondAlways(Second):
    within = 1e9


class WithoutWindows(Exact):
    """Shows neither window rows nor hidden rows."""

    def window_rows(self, captured: Sequence[Any], frames: Sequence[int]) -> Any:
        return None

    def draft(self, *args: Any) -> Any:
        return replace(super().draft(*args), hidden=None, confidence=None)


class WithoutTokens(Exact):
    """Shows logits only."""

    def draft(self, *args: Any) -> Any:
        return replace(super().draft(*args), tokens=None)


class OneNaN(Exact):
    def block(self, window: Any, start: int, bonus: int, given: Sequence[int] | None) -> Block:
        block = super().block(window, start, bonus, given)
        block.hidden[1][2] = nan
        return block


class TooShort(Exact):
    def block(self, window: Any, start: int, bonus: int, given: Sequence[int] | None) -> Block:
        block = super().block(window, start, bonus, given)
        return replace(block, hidden=block.hidden[1:])


class OneRequestLess(Exact):
    """Leaves the first request out."""

    def draft(self, *args: Any) -> Any:
        shown = super().draft(*args)
        return Listed(shown.hidden[1:], shown.logits[1:], shown.tokens[1:], shown.confidence[1:])


class Ragged(Exact):
    """Gives rows of different lengths, and a token too few."""

    def block(self, window: Any, start: int, bonus: int, given: Sequence[int] | None) -> Block:
        block = super().block(window, start, bonus, given)
        block.logits[0].pop()
        block.tokens.pop()
        return block
