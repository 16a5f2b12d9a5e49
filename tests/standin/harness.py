"""Batches written by hand, what lends to the stand-in's worker, and how its state is read."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from draftproof.reference.vocabulary import (
    Batch,
    Collaborators,
    Config,
    ContextRow,
    GenerationRow,
    Mode,
    StepResult,
    Worker,
    WorkerState,
)
from standin.door import make

CONFIG = Config(max_draft_len=3, window_size=8, num_stages=2, max_num_requests=4)
DRAFT, OTHER = 1, 2  # Every draft is 1; where the target disagrees it says 2.

Chunk = tuple[int, int, int, int]  # id, incarnation, first position, length
Anchor = tuple[int, int, int]  # id, incarnation, position


class InjectedFault(Exception):
    pass


@dataclass
class Harness:
    """What lends the collaborators, and remembers how the worker used them."""

    fails_at: str | None = None
    seams: list[str] = field(default_factory=list)
    drafted: list[tuple[list[tuple[int, int]], int, int]] = field(default_factory=list)

    def at(self, seam: str) -> None:
        self.seams.append(seam)
        if seam == self.fails_at:
            raise InjectedFault(seam)

    def make(self, config: Config = CONFIG) -> Worker:
        def draft(windows: Any, start: int, bonus: int) -> tuple[list[int], list[float]]:
            self.drafted.append(([origin(row) for row in windows[0]], start, bonus))
            return list(range(10, 10 + config.max_draft_len)), [0.0] * config.max_draft_len

        return make(config, "cpu", Collaborators(self.at, draft))


def batch(
    r: int,
    contexts: Sequence[Chunk] = (),
    generations: Sequence[Anchor] = (),
    counts: Sequence[int] = (),
    step: int = 0,
    mode: Mode = "eager",
) -> Batch:
    """A batch whose target lets `counts` tokens per generation through (1 where none is given)."""
    rows = [GenerationRow(*anchor[:2], 0, anchor[2]) for anchor in generations]
    target = array("q", [OTHER] * len(contexts))
    for n in [*counts, *[1] * (len(rows) - len(counts))]:
        target.extend([DRAFT] * (n - 1) + [OTHER] * (2 + r - n))
    spans = [chunk[1:] for chunk in contexts]
    spans += [(incarnation, position, 1 + r) for _, incarnation, position in generations]
    hidden = array("b")
    for incarnation, first, length in spans:
        for p in range(first, first + length):
            hidden.extend([*divmod(incarnation, 128)[::-1], *divmod(p, 128)[::-1]])
            hidden.extend([*divmod(step, 128)[::-1], 0])
    return Batch(
        step=step,
        mode=mode,
        draft_len=r,
        contexts=tuple(ContextRow(i, life, 0, first, n) for i, life, first, n in contexts),
        generations=tuple(rows),
        drafts=array("q", [DRAFT] * (r * len(rows))),
        target_tokens=target,
        hidden=hidden,
    )


def step(worker: Worker, given: Batch) -> StepResult:
    """One step as the harness takes it: afterwards the batch's arrays hold something else."""
    worker.prepare(given)
    try:
        return worker.forward(given)
    finally:
        for numbers in filter(None, (given.drafts, given.target_tokens, given.hidden)):
            numbers[:] = array(numbers.typecode, [99] * len(numbers))


def origin(row: Sequence[float]) -> tuple[int, int]:
    """Incarnation and position that a stored row names."""
    return int(row[0] + 128 * row[1]), int(row[2] + 128 * row[3])


def frames(state: WorkerState, slot: int) -> dict[int, tuple[int, int]]:
    """Visible frame -> origin of the row stored there, the same in every stage."""
    stages = state.windows[slot]
    for stage, rows in enumerate(stages):
        assert rows == [[*row[:-1], stage] for row in stages[0]]
    first = state.ctx_len[slot] - state.valid_len[slot] + 1
    return {first + i: origin(row) for i, row in enumerate(stages[0])}
