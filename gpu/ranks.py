"""One step's way across the barrier that the draft MoE has in every stage (section 13)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from draftproof.reference.vocabulary import Batch, Config

Barrier = Callable[[int, int, Sequence[int]], None]

DUMMY = 1
"""Rows that a rank brings which has nothing to draft, or has failed."""


class Crossing:
    """Every stage is crossed exactly once if any rank drafts, also by a rank that fails."""

    def __init__(self, barrier: Barrier | None, config: Config) -> None:
        self._barrier = barrier
        self._stages = config.num_stages
        self._block = config.max_draft_len
        self._left: list[int] = []
        self._own = DUMMY
        self._counts: list[int] = []

    def begin(self, batch: Batch) -> None:
        """A step begins. Row counts were gathered on the host, before it."""
        own = len(batch.generations) * self._block if batch.draft_len else 0
        ranks = (own,) if batch.rank_rows is None else batch.rank_rows
        self._own, self._counts = max(DUMMY, own), self._list(ranks)
        self._left = list(range(self._stages)) if self._wanted(own, ranks) else []

    def cross(self, at: Callable[[str], None]) -> None:
        """Stage by stage; `at` is called before each."""
        while self._left:
            at("stage")
            self._pass(self._own)

    def finish(self) -> None:
        """What is left of it, with the dummy row: peers wait for nobody."""
        while self._left:
            self._pass(DUMMY)

    def _pass(self, rows: int) -> None:
        stage = self._left.pop(0)
        if self._barrier is not None:
            self._barrier(stage, rows, self._counts)

    def _wanted(self, own: int, ranks: Sequence[int]) -> bool:
        """Whether anybody drafts."""
        return any(ranks)

    def _list(self, ranks: Sequence[int]) -> list[int]:
        """The list of row counts, the same on all ranks."""
        return [max(DUMMY, rows) for rows in ranks]
