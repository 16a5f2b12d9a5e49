"""Who owns which window slot: host bookkeeping (section 3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from draftproof.reference.vocabulary import IDLE_ID, PADDING_ID_BASE


class Owner(NamedTuple):
    """A slot, and the incarnation of the request that holds it."""

    slot: int
    incarnation: int


@dataclass(slots=True)
class Changes:
    """What the device has to do after changes of the map.

    cleared: slots whose counters and windows start anew, in any order; admitted: those of them
    that have a new owner, whose confidence row becomes neutral.
    """

    cleared: list[int] = field(default_factory=list)
    admitted: list[int] = field(default_factory=list)


class SlotMap:
    """`req_to_slot` and `free_slots` of section 2, for slots 0 .. S - 1."""

    def __init__(self, slots: int) -> None:
        self.owners: dict[int, Owner] = {}
        self.free: deque[int] = deque(range(slots))

    def find(self, request_id: int, incarnation: int) -> int | None:
        """The slot of this life of the request; None if it holds none."""
        owner = self.owners.get(request_id)
        return owner.slot if owner and owner.incarnation == incarnation else None

    def retire(self, present: Mapping[int, int], changes: Changes) -> None:
        """Forget whoever is not in the batch, oldest owner first.

        present: request id -> incarnation, real rows only.
        """
        gone = [i for i, owner in self.owners.items() if present.get(i) != owner.incarnation]
        for request_id in gone:
            self._release(request_id, changes)

    def assign(self, request_id: int, incarnation: int, reset: bool, changes: Changes) -> int:
        """The request's slot; a reset gives up the one it holds and takes another.

        Not for dummy ids. Raises RuntimeError, changing nothing, when no slot is free.
        """
        slot = self.find(request_id, incarnation)
        if slot is not None and not reset:
            return slot
        if slot is not None:
            self._release(request_id, changes)
        if not self.free:
            raise RuntimeError(f"request {request_id} needs a window slot, but none is free")
        slot = self.free.popleft()
        self.owners[request_id] = Owner(slot, incarnation)
        changes.cleared.append(slot)
        changes.admitted.append(slot)
        return slot

    def _release(self, request_id: int, changes: Changes) -> None:
        slot = self.owners.pop(request_id).slot
        self.free.append(slot)
        changes.cleared.append(slot)


def is_padding(request_id: int, block: int) -> bool:
    """Whether the id is one of graph padding; block: K."""
    return request_id >= PADDING_ID_BASE - block


def is_dummy(request_id: int, block: int) -> bool:
    """Whether the id is one that maps to scratch and never takes a slot; block: K."""
    return request_id == IDLE_ID or is_padding(request_id, block)
