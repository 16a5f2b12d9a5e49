"""Implementations for tests: the model behind the door, with one thing wrong at one step."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Batch, StepResult, WorkerState
from draftproof.sim.lockstep import MakeWorker


def nothing(answer: Any) -> None:
    """Change nothing."""


def spoiled(
    step: int,
    result: Callable[[StepResult], object] = nothing,
    state: Callable[[WorkerState], object] = nothing,
) -> MakeWorker:
    """The model, but its answer to forward `step`, or its state after it, is changed.

    Both are plain lists and dicts of the caller's own by then, to be changed in place.
    """

    class Spoiled(Model):
        now = -1

        def forward(self, batch: Batch) -> StepResult:
            self.now = batch.step
            answer = deepcopy(super().forward(batch))
            if self.now == step:
                result(answer)
            return answer

        def state(self) -> WorkerState:
            shown = plain(super().state())
            if self.now == step:
                state(shown)
            return shown

    return Spoiled


def plain(state: WorkerState) -> WorkerState:
    """The same state in lists and dicts that nobody else holds."""
    shown = deepcopy(state)
    shown.windows = [[list(rows) for rows in stages] for stages in shown.windows]
    shown.confidence_logits = [list(row) for row in shown.confidence_logits]  # no row twice
    return shown
