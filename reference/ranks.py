"""The draft MoE's barrier across ranks, once per stage (semantics, section 13)."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.reference.vocabulary import Batch, Collaborators, Config


def drafted_rows(config: Config, batch: Batch) -> int:
    """What this rank drafts in the step: G * K rows, 0 at r = 0 or without generations."""
    return len(batch.generations) * config.max_draft_len if batch.draft_len else 0


def row_counts(rank_rows: Sequence[int]) -> list[int]:
    """The list that every rank calls the barrier with: one dummy row where nothing is drafted."""
    return [max(1, rows) for rows in rank_rows]


class Barrier:
    """One rank's side. `stages_left`: those of this step that it has not crossed yet."""

    def __init__(self, config: Config, collaborators: Collaborators) -> None:
        self.config = config
        self._lent = collaborators
        self.stages_left: list[int] = []
        self._own = 1
        self._counts: list[int] = []

    def step(self, batch: Batch) -> None:
        """A step begins: if any rank drafts, all cross every stage; if none does, nobody calls."""
        own = drafted_rows(self.config, batch)
        everybody = batch.rank_rows if batch.rank_rows is not None else (own,)
        self._own, self._counts = max(1, own), row_counts(everybody)
        self.stages_left = list(range(self.config.num_stages)) if any(everybody) else []

    def cross(self) -> None:
        """Every stage with this rank's own rows."""
        while self.stages_left:
            self._lent.at("stage")
            self._arrive(self._own)

    def cross_failed(self) -> None:
        """A rank that fails crosses its remaining stages with the dummy row."""
        while self.stages_left:
            self._arrive(1)

    def _arrive(self, rows: int) -> None:
        stage = self.stages_left.pop(0)
        if self._lent.barrier is not None:
            self._lent.barrier(stage, rows, self._counts)
