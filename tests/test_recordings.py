"""`draftproof validate`: whatever is changed in the recordings is seen, but for a short list.

Any change of a number by one that is not on the list `BLIND` must be a Divergence that says where
and whose; and each entry must have a change that really goes unseen, or it has to leave the list.
"""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from changed_recordings import (
    BLIND,
    FILES,
    FOLDER,
    ROOT,
    Blind,
    Change,
    Place,
    hiders,
    places,
    read,
    verdict,
    write,
)
from hypothesis import settings

from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import FileError

# Between them: failed steps, eager and replayed; failed and plain warm-ups; padding; schedules,
# also with 0 and with idle entries, and none; W = 1; W < prompt; one slot; reused and paused ids.
EVERY_NUMBER = "01000 01006 01009 01017 01020 01028 01036 01047 01048 01060 01093 01097 01109"


@pytest.mark.parametrize("blind", BLIND, ids=lambda blind: blind.name)
def test_what_the_docs_list_really_goes_unseen(blind: Blind, tmp_path: Path) -> None:
    """If this fails, the list is stale: the change is seen now, or is not what the docs say."""
    name, place, delta = blind.example
    before = read(FOLDER / f"{name}.jsonl")
    after = [*before]
    after[place.line] = place.changed(before[place.line], delta)
    assert after != before
    assert verdict(write(tmp_path / "changed.jsonl", after)) is None
    assert hiders(Change(place, before, after)) == [blind]
    assert blind.words in (ROOT / "docs" / "recordings.md").read_text("utf-8")


# ---- what is seen --------------------------------------------------------------------------------


def check_changes(file: Path, scratch: Path, chosen: Callable[[Place], bool]) -> int:
    """Change each chosen number by one, up and down; returns how many changes were tried."""
    before, tried = read(file), 0
    texts = [json.dumps(line) + "\n" for line in before]
    for place in (place for i, line in enumerate(before) for place in places(line, i)):
        if not chosen(place):
            continue
        for delta in (1, -1):
            after = [*before]
            after[place.line] = place.changed(before[place.line], delta)
            altered = [*texts]
            altered[place.line] = json.dumps(after[place.line]) + "\n"
            scratch.write_text("".join(altered), "utf-8")
            check_verdict(Change(place, before, after), verdict(scratch))
            tried += 1
    return tried


def check_verdict(change: Change, found: Divergence | FileError | None) -> None:
    place = change.place
    if found is None:
        assert hiders(change), f"unseen: {place}"
    elif isinstance(found, FileError):
        # Not a recording any more. The numbers of batch rows and of the state are never so.
        assert place.line == 0 or place.name in ("draft_len", "num_padding"), (place, found)
    else:
        assert found.oracle == "recordings"
        assert found.step is not None
        assert found.step >= place.line - 1, "named a step before the changed one"
        assert found.field
        assert found.expected != found.found
        check_names(change, found)


def check_names(change: Change, found: Divergence) -> None:
    """Does the divergence say what was changed, and whose it is?"""
    place, path = change.place, change.place.path
    if path[0] in ("contexts", "generations"):
        if path[2] == "id":  # may show at whoever comes to harm first
            assert found.request is not None, (place, found)
        elif path[2] == "incarnation":  # the queue is nobody's
            assert found.request is not None or found.field == "free", (place, found)
        else:
            assert found.request == change.row["id"], (place, found)
    elif path[0] == "state":
        assert found.step == place.line - 1
        if path[1] == "free":
            was, now = (
                lines[place.line]["state"]["free"] for lines in (change.before, change.after)
            )
            assert (found.field, found.expected, found.found) == ("free", was, now)
        elif len(path) == 3:
            assert found.request in {int(i) for i in (path[2], int(path[2]) + 1, int(path[2]) - 1)}
        else:
            check_row_names(change, found)


def check_row_names(change: Change, found: Divergence) -> None:
    _, _, request, field, *frame = change.place.path
    assert (found.request, found.field) == (int(request), field), (change.place, found)
    rows = [
        lines[change.place.line]["state"]["rows"][request]
        for lines in (change.before, change.after)
    ]
    was, now = (row[field] for row in rows)
    if not frame:
        assert (found.expected, found.found) == (was, now)
    elif not change.place.key:
        key = str(frame[0])
        assert (found.frame, found.expected) == (int(key), was[key])
        assert list(found.found) == now[key]


@pytest.mark.parametrize("name", EVERY_NUMBER.split())
def test_any_number_changed_by_one_is_seen_and_named(name: str, tmp_path: Path) -> None:
    """If this fails, a wrong recording passes, or the report sends people to the wrong place."""
    assert check_changes(FOLDER / f"{name}.jsonl", tmp_path / "x.jsonl", lambda place: True) > 100


@pytest.mark.timeout(1200)
def test_a_sample_of_changes_in_every_file_is_seen(tmp_path: Path) -> None:
    """If this fails, a change goes unseen under conditions that the chosen files do not have.

    Under the nightly profile every number of every file is tried.
    """
    share = 1.0 if settings.get_current_profile_name() == "nightly" else 0.01
    random = Random(20)
    for file in FILES:
        check_changes(file, tmp_path / "x.jsonl", lambda place: random.random() < share)
