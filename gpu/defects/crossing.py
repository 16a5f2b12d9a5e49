"""Defects of what a rank does at the barrier where its peers wait (section 13)."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.gpu.defects.planted import Planted
from draftproof.gpu.ranks import Crossing
from draftproof.reference.vocabulary import IDLE_ID, Batch, Collaborators, Config


class _Crosses(Planted):
    """With another way across the barrier."""

    way: type[Crossing] = Crossing

    def __init__(
        self, config: Config, device: str, collaborators: Collaborators, **options: str
    ) -> None:
        super().__init__(config, device, collaborators, **options)
        self.crossing = self.way(collaborators.barrier, config)


class _OnlyDrafters(Crossing):
    def _wanted(self, own: int, ranks: Sequence[int]) -> bool:
        return bool(own)


class ZeroStepDoesNotCross(_Crosses):
    """A rank at r = 0 has nothing to draft, and does not come to the barrier: RANK-16."""

    way = _OnlyDrafters


class _Everybody(Crossing):
    def _wanted(self, own: int, ranks: Sequence[int]) -> bool:
        return True


class CrossesForNobody(_Crosses):
    """A rank comes to the barrier in steps in which nobody drafts; no public report."""

    way = _Everybody


class _IdleBringsOne(Crossing):
    def begin(self, batch: Batch) -> None:
        super().begin(batch)
        if batch.generations and batch.generations[0].request_id == IDLE_ID:
            self._counts = [min(rows, self._block) for rows in self._counts]


class IdleRankMiscounts(_Crosses):
    """An idle rank comes with a list in which every rank has at most one request: RANK-8."""

    way = _IdleBringsOne


class _GivesUp(Crossing):
    def finish(self) -> None:
        self._left = []


class FailedRankLeaves(_Crosses):
    """A rank that fails raises at once, and its peers wait for it; no public report."""

    way = _GivesUp


class _ForgetsDummy(Crossing):
    def _list(self, ranks: Sequence[int]) -> list[int]:
        return list(ranks)


class EmptyRanksUncounted(_Crosses):
    """The list has 0 for a rank that brings the dummy row: RANK-15."""

    way = _ForgetsDummy


class _TargetRows(Crossing):
    def begin(self, batch: Batch) -> None:
        super().begin(batch)
        prompts = sum(row.length for row in batch.contexts)
        self._own = prompts + len(batch.generations) * (1 + batch.draft_len)


class CountsOfTheTarget(_Crosses):
    """A rank comes to the barrier with as many rows as its target had: RANK-13."""

    way = _TargetRows
