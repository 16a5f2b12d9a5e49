"""Defects of the slot map and of what a slot is left with."""

from __future__ import annotations

from collections.abc import Mapping

from draftproof.gpu.defects.planted import Planted
from draftproof.gpu.slots import Changes, Owner, SlotMap, is_padding
from draftproof.reference.vocabulary import IDLE_ID, ContextRow, GenerationRow


class WindowNotCleared(Planted):
    """A slot is given up and given out again with its counters and window: LEAK-2."""

    def _apply(self, changes: Changes) -> None:
        self.memory.neutralise(changes.admitted)


class PaddingOnSlotZero(Planted):
    """A padding row, which has no slot, is mapped to slot 0 instead of scratch: SLOT-1."""

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


class PaddingOnLastSlot(Planted):
    """A padding row has slot -1, which as an index is the last one there is: SLOT-8."""

    def _slot(self, row: ContextRow | GenerationRow) -> int:
        if is_padding(row.request_id, self.config.max_draft_len):
            return self.scratch - 1
        return super()._slot(row)


class PaddingTakesSlot(Planted):
    """A padding row is given a slot of the pool, until a batch without it: SLOT-5."""

    def _slot(self, row: ContextRow | GenerationRow) -> int:
        if is_padding(row.request_id, self.config.max_draft_len):
            return self.slots.assign(row.request_id, row.incarnation, False, Changes())
        return super()._slot(row)


class IdleRowKeepsSlot(Planted):
    """The row of an idle step writes to the slot that its row had before: SLOT-7."""

    def _slot(self, row: ContextRow | GenerationRow) -> int:
        if row.request_id == IDLE_ID:
            return int(self.memory.batch_to_slot[0])
        return super()._slot(row)


class _ZeroForUnknown(SlotMap):
    def assign(self, request_id: int, incarnation: int, reset: bool, changes: Changes) -> int:
        if not reset and self.find(request_id, incarnation) is None:
            self.owners[request_id] = Owner(0, incarnation)
        return super().assign(request_id, incarnation, reset, changes)


class UnknownOnSlotZero(Planted):
    """Whoever comes without a prompt's beginning, as the imported do, is on slot 0: SLOT-2."""

    slot_map = _ZeroForUnknown


class ClearedWhenReused(Planted):
    """A slot that was given up keeps its counters and window until somebody gets it: LEAK-8."""

    def _apply(self, changes: Changes) -> None:
        self.memory.clear(changes.admitted)
        self.memory.neutralise(changes.admitted)
