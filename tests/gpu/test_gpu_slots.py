"""The slot map on hand-written arrivals and departures (semantics, section 3)."""

from __future__ import annotations

import pytest

from draftproof.gpu.slots import Changes, SlotMap, is_dummy
from draftproof.reference.vocabulary import IDLE_ID, PADDING_ID_BASE


def filled(slots: int, requests: int) -> SlotMap:
    owners = SlotMap(slots)
    for request in range(1, requests + 1):
        owners.assign(request, 1, False, Changes())
    return owners


def held(slots: SlotMap) -> dict[int, int]:
    return {request: owner.slot for request, owner in slots.owners.items()}


def test_arrivals_take_the_front_and_departures_go_to_the_end() -> None:
    """If this fails, slots are handed out in another order than the engine expects."""
    slots, changes = filled(4, 3), Changes()
    slots.retire({2: 1}, changes)
    assert (held(slots), list(slots.free)) == ({2: 1}, [3, 0, 2])
    assert (changes.cleared, changes.admitted) == ([0, 2], [])
    assert slots.assign(9, 1, False, changes) == 3
    assert changes.admitted == [3]


def test_another_incarnation_is_a_departure() -> None:
    """If this fails, a reused id inherits the earlier life's window."""
    slots, changes = filled(2, 1), Changes()
    assert slots.find(1, 2) is None
    slots.retire({1: 2}, changes)
    assert (held(slots), list(slots.free)) == ({}, [1, 0])


def test_a_reset_moves_to_the_front_slot() -> None:
    """If this fails, a recomputed prompt keeps its slot, or loses its place in the map."""
    slots, changes = filled(3, 2), Changes()
    assert slots.assign(1, 1, True, changes) == 2
    assert (held(slots), list(slots.free)) == ({2: 1, 1: 2}, [0])
    assert (changes.cleared, changes.admitted) == ([0, 2], [2])


def test_a_reset_without_a_free_slot_takes_its_own_again() -> None:
    """If this fails, a full worker cannot recompute a prompt."""
    slots = filled(1, 1)
    assert slots.assign(1, 1, True, Changes()) == 0


def test_a_known_request_keeps_its_slot() -> None:
    """If this fails, a second chunk clears the first."""
    slots, changes = filled(2, 1), Changes()
    assert slots.assign(1, 1, False, changes) == 0
    assert changes == Changes()


def test_no_free_slot_is_an_error_that_changes_nothing() -> None:
    """If this fails, a refused request leaves traces in the map."""
    slots, changes = filled(1, 1), Changes()
    with pytest.raises(RuntimeError, match="request 2 needs a window slot, but none is free"):
        slots.assign(2, 1, False, changes)
    assert (held(slots), list(slots.free), changes) == ({1: 0}, [], Changes())


def test_dummy_ids() -> None:
    """If this fails, padding or an idle rank takes a slot, or a real request gets none."""
    top = PADDING_ID_BASE
    assert [is_dummy(i, 3) for i in (IDLE_ID, 1, top - 4, top - 3, top)] == [
        True, False, False, True, True,
    ]  # fmt: skip
