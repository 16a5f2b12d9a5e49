"""What the journal's history expects of a window, against the examples of the specification."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from batches import small, tagged
from planted.facts import moments, passing_runs

from draftproof.properties.history import Life
from draftproof.properties.history import tagged as packed_rows
from draftproof.properties.invariants import Invariants
from draftproof.reference.vocabulary import ContextRow, Frames, WorkerState
from draftproof.sim.events import Submit
from draftproof.sim.journal import Submitted

CONFIG = small(window_size=4, num_stages=2)


def life(**asked: Any) -> Life:
    return Life.of(Submitted(1, 1, Submit(0, **asked)))


def feed(request: Life, first: int, count: int, step: int, fresh: bool) -> None:
    positions = range(first, first + count)
    rows = [
        Frames(bytes(n for p in positions for n in tagged(1, p, step, stage))) for stage in range(2)
    ]
    request.fed(CONFIG, rows, 0, count, first + count, fresh)


def test_chunks_append_and_the_oldest_frames_fall_out() -> None:
    """If this fails, I3 and I21 demand another window than section 5 describes."""
    request = life(prompt=5)
    feed(request, 0, 3, step=0, fresh=True)
    feed(request, 3, 2, step=1, fresh=False)
    assert (request.last_frame, request.next_position) == (5, 5)
    assert request.stages == [
        [tagged(1, position, step, stage) for position, step in ((1, 0), (2, 0), (3, 1), (4, 1))]
        for stage in range(2)
    ]


def test_who_is_admitted_anew_sees_only_what_is_fed_from_then_on() -> None:
    """If this fails, I3 demands frames from before a pause, an import or a recompute."""
    request = life(prompt=5)
    feed(request, 0, 3, step=0, fresh=True)
    feed(request, 3, 2, step=1, fresh=True)
    assert request.last_frame == 5
    assert request.stages == [[tagged(1, 3, 1, s), tagged(1, 4, 1, s)] for s in range(2)]


def test_hidden_rows_are_tagged_by_the_text() -> None:
    """If this fails, I9 and I3 compare with other digits than section 8a says."""
    row = ContextRow(7, 130, 0, first_position=200, length=2)
    assert list(packed_rows(row, 2, 300)) == tagged(130, 200, 300) + tagged(130, 201, 300)
    assert packed_rows(row, 0, 300) == b""
    far = ContextRow(7, 130, 0, first_position=128 * 128 - 1, length=2)
    assert list(packed_rows(far, 2, 0)) == tagged(130, 128 * 128 - 1) + tagged(130, 0)


@pytest.mark.parametrize(
    ("asked", "starts_at"),
    [
        ({"prompt": 6}, 0),
        ({"prompt": 6, "reused": 4}, 4),
        ({"prompt": 6, "reused": 9}, 5),
        ({"prompt": 6, "imported": True}, 5),
    ],
)
def test_where_a_request_starts(asked: dict[str, Any], starts_at: int) -> None:
    """If this fails, I4 or I5 demand a first row at another position."""
    assert life(**asked).next_position == starts_at


@pytest.mark.parametrize("field", WorkerState.__dataclass_fields__)
def test_a_field_that_is_not_shown_is_passed(field: str) -> None:
    """If this fails, the invariants cannot watch a worker that hides this field."""
    for run in passing_runs()[:20]:
        watch = Invariants(run.config)
        for entries, state in moments(run):
            watch.step(entries, state and replace(state, **{field: None}))
        assert len(watch.history.lives) > 0
