"""Which snapshots of confidences the host has (semantics, section 19)."""

from math import isnan, nan

from batches import small

from draftproof.reference.confidence import Snapshot
from draftproof.sim.snapshots import Snapshots, confidences


def test_a_row_with_one_number_that_is_none_is_none_as_a_whole() -> None:
    """If this fails, a request is ranked by what is left of a broken row."""
    config = small(confidence_scheduling=True)
    rows = [[0.0, 0.0, 0.0], [0.0, nan, 0.0], [nan, nan, nan], [0.0, 0.0, 0.0]]
    flat = confidences(config, rows, broken=[3])
    assert flat[:3].tolist() == [0.5] * 3
    assert all(map(isnan, flat[3:]))


def test_the_host_has_those_that_are_one_or_two_steps_older_than_the_drafts() -> None:
    """If this fails, the host chooses by what it cannot know yet, or by what is long gone."""
    snapshots = Snapshots()
    assert [snapshots.old(age) for age in range(4)] == [None] * 4
    kept = [Snapshot([], [], {}, number) for number in range(5)]
    for snapshot in kept:
        snapshots.keep(snapshot)
    assert [snapshots.old(age) for age in range(5)] == [None, kept[3], kept[2], None, None]
    snapshots.keep(None)  # that step failed
    snapshots.keep(kept[0])
    assert [snapshots.old(age) for age in range(4)] == [None, None, kept[4], None]
