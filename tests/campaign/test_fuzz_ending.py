"""How a campaign ends: failures made small, an error or Ctrl-C meanwhile, and the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from command import MODEL

from draftproof.fuzz.campaign.chunks import Result, Task
from draftproof.fuzz.cli import parser
from draftproof.fuzz.commands.fuzz import _Campaign, _exit_code
from draftproof.reference.config import checked
from draftproof.reference.vocabulary import Config
from draftproof.sim.errors import FileError
from draftproof.sim.events import Step
from draftproof.sim.traces import Trace, cut, decode, encode


class Shrinks:
    """Instead of a pool: each failing trace shrinks to its first events; then comes Ctrl-C."""

    def __init__(self, campaign: _Campaign, events: int) -> None:
        self.campaign, self.events, self.asked = campaign, events, 0

    def run(self, tasks: Iterable[Task]) -> Iterator[Result]:
        for task in tasks:
            self.asked += 1
            whole = decode(task.traces[0], "it")
            small = encode(cut(whole, whole.events[: self.events]))
            yield Result(task.number, failing=[small], lines=["shrunk"])
            self.campaign.interrupted = True


def campaign_that_failed(folder: Path, events: int) -> tuple[_Campaign, Shrinks]:
    """After the cases: three failures of four events, which shrink to so many."""
    words = ["fuzz", "--cases", "1", "--implementation", MODEL, "--corpus", str(folder)]
    campaign = _Campaign(parser().parse_args(words))
    for field in ("ctx_len", "draft_seq", "windows"):
        trace = Trace(checked(Config(1, 2, 1, 2)), (Step(),) * 4, failure=("comparison", field))
        campaign.total.failure(trace)
    with campaign.pool:  # it has a folder
        pool = Shrinks(campaign, events)
    campaign.pool = pool  # type: ignore[assignment]  # all of a pool that is used
    return campaign, pool


def test_ctrl_c_while_failures_are_shrunk_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    """If this fails, who stops a campaign waits until the last failure is minimal."""
    campaign, pool = campaign_that_failed(tmp_path, events=2)
    first, *others = campaign._examined()
    assert pool.asked == 1
    assert first[0] == "shrunk"
    assert [lines[0][:12].strip() for lines in others] == ["found by", "found by"]
    assert sorted(len(trace.events) for trace in campaign.corpus.failing()) == [2, 4, 4]


def test_a_smaller_trace_of_an_earlier_campaign_stays_and_is_told(tmp_path: Path) -> None:
    """If this fails, each campaign on a corpus may undo the shrinking of the last one."""
    earlier, _ = campaign_that_failed(tmp_path, events=2)
    assert "kept" not in str(earlier._examined())
    again, _ = campaign_that_failed(tmp_path, events=2)
    assert "kept" not in str(again._examined())
    later, _ = campaign_that_failed(tmp_path, events=3)
    assert "kept         the trace of an earlier campaign (2 events)" in later._examined()[0]
    assert sorted(len(trace.events) for trace in later.corpus.failing()) == [2, 4, 4]


def test_an_error_in_the_end_does_not_hide_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, a full disk turns a night's failures into a wrong exit code."""
    campaign, _ = campaign_that_failed(tmp_path, events=2)

    def full() -> int:
        raise FileError("the disk is full")

    monkeypatch.setattr(campaign, "_run", full)
    assert campaign.run() == 1
    said = capsys.readouterr()
    assert "draftproof: the disk is full" in said.err
    assert f"3 failures in {tmp_path}/failing" in said.out


@pytest.mark.parametrize(
    ("failures", "code"),
    [
        ([("exception", "death")], 4),
        ([("liveness", "never done")], 7),
        ([("hang", "watchdog")], 1),
        ([("liveness", "never done"), ("exception", "death")], 1),
        ([("comparison", "windows"), ("exception", "death")], 1),
    ],
)
def test_each_class_of_failure_has_its_exit_code(
    failures: list[tuple[str, str]], code: int
) -> None:
    """If this fails, whoever starts campaigns by a script cannot tell what they found."""
    assert _exit_code(failures) == code
