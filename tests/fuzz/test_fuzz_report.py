"""The failure report, word by word."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from batches import small
from command import draftproof

from draftproof.fuzz.report import describe, failure_report
from draftproof.reference.config import checked
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import AnyEvent, Cancel, Pause, Step, Submit, Warmup
from draftproof.sim.traces import Trace

DATA = Path(__file__).parent / "data"

REPORT = """\
found by     comparison
step         3
event        7
request      2
incarnation  2
slot         1
field        windows
stage        0
frame        1
expected     [2, 0, 0, 0, 1, 0, 0]
found        [2, 0, 4, 0, 3, 0, 0]
whose        expected incarnation 2, position 0, fed in step 1; \
found incarnation 2, position 4, fed in step 3
last events    3 step draft_len=0
               4 step draft_len=0
               5 cancel request=0
               6 submit request=2 prompt=3 reused=1 same_id=True limit=30
               7 step accepts=(1, 2)
trace        rejected-row-stored.jsonl (9 events)
replay       draftproof replay rejected-row-stored.jsonl
"""
"""Request 2 came with one prompt token, which step 1 fed at position 0. Step 3 accepts one draft:
positions 2 and 3. The rejected one, position 4, belongs to frame 5, which has frame 1's column."""


def test_the_report_of_a_planted_defect_from_its_stored_trace(tmp_path: Path) -> None:
    """If this fails, somebody who reads a report learns something else, or less, than before."""
    shutil.copy(DATA / "rejected-row-stored.jsonl", tmp_path)
    done = draftproof("replay", "rejected-row-stored.jsonl", cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == (REPORT, "", 1)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Submit(4), "submit request=4"),
        (
            Submit(0, prompt=3, stop=0, sampled=True),
            "submit request=0 prompt=3 stop=0 sampled=True",
        ),
        (Step(), "step"),
        (Step(accepts=(1, 0), draft_len=0), "step accepts=(1, 0) draft_len=0"),
        (Step(fault="seed", graph=True), "step graph=True fault=seed"),
        (Cancel(0), "cancel request=0"),
        (Pause(2), "pause request=2"),
        (Warmup(rows=2), "warmup rows=2"),
    ],
)
def test_an_event_is_told_without_its_defaults(event: AnyEvent, text: str) -> None:
    """If this fails, the last events are hard to read, or leave out what matters."""
    assert describe(event) == text


EVENTS = tuple(Cancel(i) for i in range(8))
TRACE = Trace(checked(small()), EVENTS)


def last_events(divergence: Divergence) -> list[str]:
    lines = failure_report(divergence, TRACE, None)
    return [line[12:] for line in lines if "cancel" in line]


def test_the_last_events_end_with_the_failing_one() -> None:
    """If this fails, the report shows events from after the failure, or too few before it."""
    at_5 = Divergence("hang", "timeout", event=5)
    assert last_events(at_5) == [f" {i:>3} cancel request={i}" for i in range(1, 6)]
    at_0 = Divergence("hang", "timeout", event=0)
    assert last_events(at_0) == ["   0 cancel request=0"]
    somewhere = Divergence("hang", "timeout")
    assert last_events(somewhere) == [f" {i:>3} cancel request={i}" for i in range(3, 8)]


def test_a_report_leaves_out_what_is_not_known() -> None:
    """If this fails, a report is full of None."""
    lines = failure_report(Divergence("invariant", "I1", expected=0, found=None), TRACE, None)
    assert lines[:4] == [
        "found by     invariant",
        "field        I1",
        "expected     0",
        "found        None",
    ]


def test_the_command_can_be_pasted_into_a_shell() -> None:
    """If this fails, the printed command does not replay a trace with a blank in its name."""
    lines = failure_report(Divergence("hang", "timeout"), TRACE, Path("my traces/it's.jsonl"))
    assert lines[-2:] == [
        "trace        my traces/it's.jsonl (8 events)",
        """replay       draftproof replay 'my traces/it'"'"'s.jsonl'""",
    ]


def test_a_hang_is_shown_again_in_the_time_it_was_given() -> None:
    """If this fails, the printed command finds nothing wrong in a step that only was too slow."""
    path = Path("t.jsonl")
    lines = failure_report(Divergence("hang", "timeout"), TRACE, path, 0.5)
    assert lines[-1] == "replay       draftproof replay t.jsonl --step-timeout 0.5"
    lines = failure_report(Divergence("comparison", "slots"), TRACE, path, 0.5)
    assert lines[-1] == "replay       draftproof replay t.jsonl"
