"""Which snapshots of confidences the host has (semantics, section 19)."""

from draftproof.reference.confidence import Snapshot
from draftproof.sim.snapshots import Snapshots


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
