"""What the journal says about each incarnation, folded step by step.

Only facts of the journal go in; neither the engine nor the model is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from draftproof.reference.vocabulary import Batch, Config, ContextRow, GenerationRow, StepResult
from draftproof.sim.events import Submit

Row = list[int]


@dataclass(slots=True)
class Life:
    """One incarnation of a request.

    length: committed tokens, prompt included; frames: the rows its window must show, per stage,
    oldest first; last_frame: the newest of them; resident: it was in the last batch, so the worker
    still knows it; drafts: what was proposed for it in the last batch; over: it departed, and why.
    """

    request_id: int
    incarnation: int
    asked: Submit
    length: int
    output: list[int] = field(default_factory=list)
    stages: list[list[Row]] = field(default_factory=list)
    last_frame: int = 0
    next_position: int = 0
    resident: bool = False
    admitted: bool = False
    drafts: list[int] = field(default_factory=list)
    over: str | None = None

    def fed(self, config: Config, first: int, count: int, step: int, fresh: bool) -> None:
        """Committed positions first .. first + count - 1 were fed in `step`."""
        self.admitted = fresh
        kept = [[] for _ in range(config.num_stages)] if fresh or not self.stages else self.stages
        digits = [
            [*two(self.incarnation), *two(position), *two(step)]
            for position in range(first, first + count)
        ]
        self.stages = [
            (rows + [[*row, stage] for row in digits])[-config.window_size :]
            for stage, rows in enumerate(kept)
        ]
        self.last_frame = self.next_position = first + count


def two(number: int) -> tuple[int, int]:
    """A number as two base-128 digits, low digit first (semantics, section 8a)."""
    return number % 128, number // 128 % 128


@dataclass(slots=True)
class History:
    """All lives, and the batch that is being looked at."""

    config: Config
    lives: dict[int, Life] = field(default_factory=dict)
    batch: Batch | None = None
    result: StepResult | None = None
    undelivered: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    """Per incarnation in the last answered batch: its step, and the tokens it may be given."""

    def life(self, row: ContextRow | GenerationRow) -> Life | None:
        """Whose row this is; None for idle, padding and warm-up rows."""
        return self.lives.get(row.incarnation)

    def real_rows(self) -> list[tuple[int, ContextRow | GenerationRow, Life]]:
        """Rows of requests in the current batch, with their index."""
        assert self.batch is not None
        return [
            (b, row, self.lives[row.incarnation])
            for b, row in enumerate(self.batch.rows)
            if row.incarnation in self.lives
        ]

    def widths(self) -> list[int]:
        """Token rows of each row of the current batch."""
        assert self.batch is not None
        generations = self.batch.verify_lens or [1 + self.batch.draft_len] * len(
            self.batch.generations
        )
        return [row.length for row in self.batch.contexts] + list(generations)

    def answered(self) -> None:
        """Take in what the worker made of the current batch."""
        batch, result = self.batch, self.result
        assert batch is not None and result is not None
        present = set()
        contexts = len(batch.contexts)
        for b, row, life in self.real_rows():
            present.add(row.incarnation)
            n = result.new_tokens_lens[b]
            if isinstance(row, ContextRow):
                first, count = row.first_position, row.length
                ends_prompt = first + count >= life.length
                tokens = result.new_tokens[b][:n] if ends_prompt else []
            else:
                first, count, tokens = row.position, n, result.new_tokens[b][:n]
            fresh = not life.resident or (b < contexts and first == 0)
            life.fed(self.config, first, count, batch.step, fresh)
            life.drafts = list(result.next_draft_tokens[b]) if tokens else []
            self.undelivered[row.incarnation] = (batch.step, tokens)
        for incarnation, life in self.lives.items():
            life.resident = incarnation in present
            if not life.resident:
                life.drafts = []
