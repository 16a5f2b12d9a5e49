"""Defects of the slot map and of what a slot is left with."""

from __future__ import annotations

from collections.abc import Mapping

from draftproof.gpu.defects.planted import Planted
from draftproof.gpu.slots import Changes, SlotMap, is_padding
from draftproof.reference.vocabulary import ContextRow, GenerationRow


class WindowNotCleared(Planted):
    """A slot is given up and given out again with its counters and window: LEAK-2."""

    def _apply(self, changes: Changes) -> None:
        self.memory.neutralise(changes.admitted)


class PaddingOnSlotZero(Planted):
    """A padding row, which has no slot, is mapped to slot 0 instead of scratch: SLOT-1, SLOT-8."""

    def _slot(self, row: ContextRow | GenerationRow) -> int:
        if is_padding(row.request_id, self.config.max_draft_len):
            return 0
        return super()._slot(row)


class _Stack(SlotMap):
    def _release(self, request_id: int, changes: Changes) -> None:
        super()._release(request_id, changes)
        self.free.rotate(1)


class FreeQueueAsStack(Planted):
    """The slot given up last is given out first; no public report."""

    slot_map = _Stack


class _ById(SlotMap):
    def find(self, request_id: int, incarnation: int) -> int | None:
        return super().find(request_id, 0)

    def retire(self, present: Mapping[int, int], changes: Changes) -> None:
        super().retire(dict.fromkeys(present, 0), changes)

    def assign(self, request_id: int, incarnation: int, reset: bool, changes: Changes) -> int:
        return super().assign(request_id, 0, reset, changes)


class EarlierLifeInherited(Planted):
    """Slots are looked up by id alone, so a new request with an old id is the old one: LEAK-5."""

    slot_map = _ById
