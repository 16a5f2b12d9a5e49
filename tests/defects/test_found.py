"""docs/found.md: each report's trace fails as it says, by its defect alone, and nothing can go."""

import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from draftproof.fuzz.cases import Subject
from draftproof.fuzz.cli import main
from draftproof.fuzz.defects.catalogue import CATALOGUE, ENGINE_DEFECTS
from draftproof.fuzz.defects.found import page, shown
from draftproof.fuzz.defects.reports import NOT_COVERED, PLANTED, reports
from draftproof.fuzz.ranks.cases import RankSubject
from draftproof.fuzz.ranks.defects import RANK_CATALOGUE
from draftproof.fuzz.supervise import CHILD
from draftproof.sim.loading import load
from draftproof.sim.lockstep import check
from draftproof.sim.run import replay
from draftproof.sim.traces import Trace, cut
from draftproof.sim.traces import load as read

DOCS = Path(__file__).parents[2] / "docs"
NAMES = tuple(PLANTED)


def called(name: str) -> str:
    """A defect's name, and the reports that it stands for: `pytest -k '[POS-1]'` selects these."""
    return name + "".join(f"[{report}]" for report in PLANTED[name].reports)


each_defect = pytest.mark.parametrize("name", NAMES, ids=called)

# What each engine defect breaks: an invariant of section 17, a rule of sections 10 and 14, what the
# schedule asked for, or plain decoding.
BROKEN = {
    "placeholders-counted": {"I20"},
    "failure-counted-as-accepted": {"I20"},
    "dropped-counted-as-emitted": {"I20"},
    "withheld-counted": {"I20"},
    "bucket-of-own-budget": {"I12"},
    "cancel-leaves-slot": {"as asked"},
    "chunk-retried": {"I4"},
    "completion-ignored": {"I14"},
    "counted-before-padding": {"I12"},
    "current-confidences": {"snapshot"},
    "drafts-by-batch-row": {"I18"},
    "drafts-of-another": {"I18"},
    "drafts-of-the-host": {"I18"},
    "dropped-tokens-counted": {"I17"},
    "ended-at-prompt-keeps-place": {"as asked"},
    "global-batch-size": {"I12", "draft length lookup"},
    "idle-rank-without-layout": {"I12"},
    "kinds-not-compared": {"I12"},
    "late-result-misdelivered": {"I13", "I4", "I5", "I9"},
    "late-result-to-the-departed": {"I13"},
    "late-result-twice": {"I13"},
    "limit-ignored": {"I14"},
    "lookup-from-wrong-side": {"draft length lookup"},
    "lost-wake-up": {"as asked", "no progress"},
    "offsets-by-row": {"I5"},
    "one-row-per-decode": {"I9"},
    "pads-alone": {"I12"},
    "paused-keeps-drafts": {"I18"},
    "placeholders-of-the-absent": {"I18"},
    "preempted-in-flight": {"I4", "I5"},
    "recycled-slot": {"snapshot"},
    "reserved-not-given-back": {"I17"},
    "resume-reads-prompt": {"I7"},
    "skip-fills-with-zeros": {"I18"},
    "stale-drafts": {"I18"},
    "stop-ignored": {"I14"},
    "swap-through-views": {"I18"},
    "zero-step-not-consumed": {"I5"},
}


@cache
def trace_of(name: str) -> Trace:
    return read(DOCS / "traces" / f"{name}.jsonl")


def sound(name: str) -> Subject:
    """What the defect is planted in."""
    graphed = ".graphs:" in (PLANTED[name].implementation or "")
    make = load("draftproof.gpu.worker:make", options={"graphs": "on"} if graphed else {})
    return RankSubject(make) if name in RANK_CATALOGUE else Subject(make)


@each_defect
def test_a_trace_fails_by_its_defect(name: str) -> None:
    """If this fails, an engine team is shown a trace that shows nothing, or something else."""
    trace = trace_of(name)
    failure = PLANTED[name].subject().failure(trace)
    assert failure is not None
    assert failure.signature == trace.failure


@each_defect
def test_the_oracle_meant_for_it_finds_it(name: str) -> None:
    """If this fails, a worker crashes instead of being compared, or an engine breaks another rule.

    A grammar may object by itself, ranks may wait for ever, of a failure an exception is told, and
    a slot that was never written is out of range where memory is poisoned.
    """
    oracle, broken = trace_of(name).failure or ("", "")
    if name in BROKEN:
        assert oracle != "comparison"
        assert broken in BROKEN[name]
    else:
        own = (".grammars:", ".crossing:", ".disturbed:", ":IdleRowKeepsSlot")
        assert oracle == "comparison" or any(
            one in str(PLANTED[name].implementation) for one in own
        )


REFUSED = {"one-row-per-decode", "late-result-misdelivered"}
"""A batch beyond the token budget, and a chunk whose length another's result has made negative, are
refused by the worker itself."""


@pytest.mark.parametrize(
    "name", [name for name in ENGINE_DEFECTS if name not in REFUSED], ids=called
)
def test_comparison_alone_is_blind_to_engine_defects(name: str) -> None:
    """If this fails, the planted fault breaks the batch itself, which is not what it stands for."""
    trace = trace_of(name)
    run = replay(trace.config, trace.alone, CATALOGUE[name].engine)
    alone = replace(run, breakdown=None)
    assert check(alone, sound(name).make, watches=()).steps == len(run.steps)


@each_defect
def test_a_trace_passes_without_its_defect(name: str) -> None:
    """If this fails, a trace shows a fault of the harness, not that of the report."""
    assert sound(name).failure(trace_of(name)) is None


@each_defect
def test_a_trace_is_replayed_as_it_was_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, `draftproof replay` tells of another failure than the trace was saved for."""
    monkeypatch.setenv(CHILD, str(tmp_path / "case.jsonl"))  # in this process, not in a child
    assert main(["replay", str(DOCS / "traces" / f"{name}.jsonl")]) in (1, 7)
    oracle, field = trace_of(name).failure or ("", "")
    told = capsys.readouterr().out.splitlines()
    assert told[0].split(maxsplit=2)[-1] == oracle
    assert field in [line.split(maxsplit=1)[-1] for line in told if line.startswith("field")]


@each_defect
def test_no_event_of_a_trace_can_go(name: str) -> None:
    """If this fails, a reader is shown events that have nothing to do with the report."""
    trace, subject = trace_of(name), PLANTED[name].subject()
    for i in range(len(trace.events)):
        rest = subject.failure(cut(trace, trace.events[:i] + trace.events[i + 1 :]))
        assert rest is None or rest.signature != trace.failure


def test_a_report_is_selected_by_its_id() -> None:
    """If this fails, who reads of a report cannot run its red and its green half by its id."""
    selected = ["-q", "--collect-only", "-p", "no:xdist", "-k", "[POS-1]", __file__]
    command = [sys.executable, "-m", "pytest", *selected]
    done = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True, check=True)
    found = {line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line}
    pair = ("test_a_trace_fails_by_its_defect", "test_a_trace_passes_without_its_defect")
    assert {f"{test}[frame-off-by-one[POS-1]]" for test in pair} <= found
    assert all("[POS-1]" in test for test in found)


def test_there_is_a_trace_for_every_defect_and_no_other() -> None:
    """If this fails, a trace was left behind by a defect that is gone, or one is missing."""
    assert {path.stem for path in (DOCS / "traces").iterdir()} == set(PLANTED)


def test_the_page_leads_to_every_report_and_trace() -> None:
    """If this fails, docs/found.md was edited by hand, or made before a defect was planted."""
    text = (DOCS / "found.md").read_text()
    for report in reports():
        assert (report.url in text) == (report.priority == "P1"), report.id
    assert set(re.findall(r"\(traces/(.+?)\.jsonl\)", text)) <= set(PLANTED)
    assert "was not measured" not in text


# The page, of records that nobody measured


def record(name: str, **verdicts: str) -> dict[str, Any]:
    """A record of one seed or more; verdicts: what the output said."""
    return {
        "sentence": PLANTED[name].sentence,
        "seeded": {"0": 7, "1": 9},
        "minimal_events": {"0": 4, "1": 3},
        "first": {"0": ["invariant", "I18"], "1": ["comparison", "ctx_len"]},
        "output": {str(i): verdict for i, verdict in enumerate(verdicts.values())},
        "trace": "1",
    }


def test_a_row_says_how_soon_how_small_by_what_and_whether_it_shows() -> None:
    """If this fails, the page misreports what was measured."""
    text = page({"frame-off-by-one": record("frame-off-by-one", a="right", b="right")})
    row = next(line for line in text.splitlines() if line.startswith("| [POS-1]"))
    sentence = "[accepted rows are stored one frame too early](traces/frame-off-by-one.jsonl)"
    assert row.endswith(f" | {sentence} | 8 | 3 | comparison: ctx_len | no |")
    assert "**1 of 1 (100%) did not show in the output**" in text
    assert "| [POS-5](" in text.partition("## Not measured")[2]


def test_one_case_that_shows_is_enough_for_a_report_to_show() -> None:
    """If this fails, more faults are called silent than are."""
    silent = {"frame-off-by-one": record("frame-off-by-one", a="right", b="wrong")}
    report = next(report for report in reports() if report.id == "POS-1")
    assert shown(report, silent) == "wrong"
    assert "**0 of 1 (0%) did not show" in page(silent)
    statistics = {"frame-off-by-one": record("frame-off-by-one", a="right", b="law")}
    assert "1 more can only be seen in statistics" in page(statistics)


def test_faults_of_ranks_are_told_and_not_counted() -> None:
    """If this fails, the share of silent faults counts those of which half was not looked at."""
    text = page({"zero-step-does-not-cross": record("zero-step-does-not-cross", a="stuck")})
    assert "| **yes, a request waits for ever** |" in text
    assert "**0 of 0 (0%) did not show in the output**" in text


def test_what_is_not_covered_is_listed_with_its_reason() -> None:
    """If this fails, the page hides what the harness does not find."""
    text = page({})
    for one, why in NOT_COVERED.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| [{one}]"))
        assert row.endswith(f" | {why} |")
