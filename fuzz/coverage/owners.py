"""Whose a slot and an id were, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from draftproof.fuzz.coverage.lives import Life
from draftproof.sim.run import Expected


class Owners:
    """Of each slot and of each id: the life that had it last, and in which step."""

    def __init__(self, lives: Mapping[int, Life]) -> None:
        self.lives = lives
        self.slots: dict[int, tuple[int, int]] = {}
        self.ids: dict[int, tuple[int, int]] = {}

    def owns(self, incarnation: int, slot: int | None) -> bool:
        """Whether a life had a slot last."""
        return slot in self.slots and self.slots[slot][0] == incarnation

    def identities(self, step: Expected, previous: int | None) -> Iterator[str]:
        """Ids that stand for another life than before."""
        for row in step.batch.rows:
            if not row.incarnation:
                continue
            earlier = self.ids.get(row.request_id)
            if earlier is not None and earlier[0] != row.incarnation:
                at_once = earlier[1] == previous
                yield f"id/back {'at once' if at_once else 'later'}"
                if at_once and self.lives[earlier[0]].failed:
                    yield "failure/then the same id"
            self.ids[row.request_id] = (row.incarnation, step.batch.step)

    def slots_of(self, step: Expected, previous: int | None) -> Iterator[str]:
        """Slots that have another owner than before."""
        incarnations = {row.request_id: row.incarnation for row in step.batch.rows}
        if not step.state.free_slots:
            yield "slot/all taken"
        for request_id, slot in (step.state.slots or {}).items():
            incarnation = incarnations.get(request_id)
            if incarnation is None:
                continue  # a step failed before the worker heard that its request had left
            earlier = self.slots.get(slot)
            if earlier is not None and earlier[0] != incarnation:
                yield f"slot/reused {'at once' if earlier[1] == previous else 'later'}"
                if self.lives[earlier[0]].failed:
                    yield "slot/taken after a failure"
            self.slots[slot] = (incarnation, step.batch.step)
