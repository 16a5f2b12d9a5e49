"""`draftproof fuzz` as users run it: whatever happens to its processes, nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command import MODEL, clean, command, draftproof

from draftproof.fuzz.campaign.chunks import Task, work
from draftproof.fuzz.campaign.corpus import Corpus
from draftproof.fuzz.campaign.minimal import points
from draftproof.reference.vocabulary import Config
from draftproof.sim.events import Step, Submit
from draftproof.sim.traces import Trace, decode, encode

TROUBLED = Path(__file__).parent / "data" / "troubled.py"
POINTS = Path(__file__).parent.parent / "data" / "points" / "coverage"


def fuzz(folder: Path, *words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    return draftproof("fuzz", *words, cwd=folder, **more)


def troubled(name: str, folder: Path) -> tuple[str, str, str, str]:
    return "--implementation", f"{TROUBLED}:{name}", "-o", f"path={folder / 'remembers'}"


def outcome(folder: Path) -> tuple[Any, dict[str, bytes]]:
    """The coverage report and every file of the corpus."""
    files = {path.name: path.read_bytes() for path in (folder / "corpus").rglob("*.jsonl")}
    return json.loads((folder / "report.json").read_text()), files


def campaign(folder: Path, *words: object, cases: int = 32) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    short = "--cases", cases, "--goal", "none"
    return fuzz(folder, *short, "--report", "report.json", *words)


def test_the_number_of_workers_changes_nothing(tmp_path: Path) -> None:
    """If this fails, a campaign cannot be repeated on another machine."""
    one = campaign(tmp_path / "1", "--implementation", MODEL, cases=80)
    two = campaign(tmp_path / "2", "--implementation", MODEL, "--workers", 2, cases=80)
    assert (one.returncode, two.returncode) == (0, 0)
    assert outcome(tmp_path / "1") == outcome(tmp_path / "2")
    assert "cases            80 passed, 0 failed" in one.stdout
    assert len(outcome(tmp_path / "1")[1]) > 10


def test_failures_are_told_apart_shrunk_and_kept(tmp_path: Path) -> None:
    """If this fails, a night of one failure hides another, or fills the disk."""
    for workers in (1, 2):
        done = campaign(
            tmp_path / str(workers), *troubled("Miscounts", tmp_path), "--workers", workers
        )
        assert done.returncode == 1
        assert "2 failures in corpus/failing" in done.stdout
    kept = Corpus(tmp_path / "1" / "corpus").failing()
    assert {trace.failure for trace in kept} == {
        ("comparison", "draft_seq"),
        ("comparison", "free_slots"),
    }
    assert all(len(trace.events) <= 4 for trace in kept)
    assert outcome(tmp_path / "1") == outcome(tmp_path / "2")
    for path in (tmp_path / "1" / "corpus" / "failing").glob("*.jsonl"):
        assert draftproof("replay", path, cwd=tmp_path / "1").returncode == 1


def test_a_failure_that_comes_and_goes_is_shrunk_with_more_tries(tmp_path: Path) -> None:
    """If this fails, whether a flaky failure is made small is left to chance."""
    events = (Submit(0, imported=True, limit=9), Step(), Step(graph=True), Step())
    trace = Trace(Config(1, 2, 1, 2, graph_batch_sizes=(1,)), events)
    failing = msgspec.structs.replace(trace, failure=("comparison", "draft_seq"))
    name = f"{TROUBLED}:MiscountsNowAndThen"
    result = work(Task(0, name, options=(("path", ""),), traces=(encode(failing),), shrink=True))
    assert result.lines[-2:] == [
        "fails        3 of 10 replays",
        "shrunk       from 4 events, with 11 tries each",
    ]
    (small,) = result.failing
    assert [type(event) for event in decode(small, "it").events] == [Step]
    sound = Task(0, f"{TROUBLED}:Sound", traces=(encode(failing),), shrink=True)
    assert work(sound).lines == [
        "found by     comparison: draft_seq",
        "fails only now and then: in none of 10 replays",
    ]


def test_a_killed_worker_is_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    """If this fails, a campaign ends, or lies, when the machine kills a process."""
    sound = campaign(tmp_path / "sound", *troubled("Sound", tmp_path))
    killed = campaign(tmp_path / "killed", *troubled("DiesOnce", tmp_path), "--workers", 2)
    assert (sound.returncode, killed.returncode) == (0, 0)
    assert outcome(tmp_path / "sound") == outcome(tmp_path / "killed")
    assert "workers          1 replaced" in killed.stdout


def test_what_kills_every_worker_is_found(tmp_path: Path) -> None:
    """If this fails, a crash of the implementation is taken for bad luck."""
    done = campaign(tmp_path / "1", *troubled("DiesOfResets", tmp_path))
    assert done.returncode == 4
    (trace,) = Corpus(tmp_path / "1" / "corpus").failing()
    assert trace.failure == ("exception", "death")
    assert "exception: death" in done.stdout


def test_a_hang_that_nothing_reaches_is_found(tmp_path: Path) -> None:
    """If this fails, one hang in C ends the night."""
    done = campaign(tmp_path / "1", *troubled("HangsInC", tmp_path), "--step-timeout", 0.5)
    assert done.returncode == 1
    (trace,) = Corpus(tmp_path / "1" / "corpus").failing()
    assert trace.failure == ("hang", "watchdog")


def test_a_worker_that_grows_is_replaced(tmp_path: Path) -> None:
    """If this fails, a leak of the implementation takes the machine down by morning."""
    done = campaign(tmp_path / "1", *troubled("Leaks", tmp_path), "--memory", 120)
    assert done.returncode == 0
    assert " replaced" in done.stdout


def test_ctrl_c_ends_what_is_under_way_and_keeps_everything(tmp_path: Path) -> None:
    """If this fails, whoever stops a campaign loses what it found."""
    words = command("fuzz", "--minutes", 5, "--workers", 2, *troubled("Miscounts", tmp_path))
    with subprocess.Popen(
        words, cwd=tmp_path, env=clean(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("corpus/failing/*.jsonl")) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert process.returncode == 1
    assert "interrupted: ending what is under way" in err
    assert "failures in corpus/failing" in out
    assert Corpus(tmp_path / "corpus").failing()


def test_a_second_ctrl_c_ends_at_once_with_the_exit_code_of_the_failures(tmp_path: Path) -> None:
    """If this fails, a script takes a campaign with failures for one without a verdict."""
    words = command("fuzz", "--minutes", 5, *troubled("MiscountsSlowly", tmp_path))
    with subprocess.Popen(
        words, cwd=tmp_path, env=clean(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("corpus/failing/*.jsonl")) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        while "ending what is under way" not in process.stderr.readline():
            pass
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert "Traceback" not in err
    assert process.returncode == 1
    assert "failures in corpus/failing" in out
    assert "passed" not in out  # what was under way has not ended
    assert Corpus(tmp_path / "corpus").failing()


def test_a_failing_trace_that_cannot_be_read_is_told_before_any_work(tmp_path: Path) -> None:
    """If this fails, an old file ends a campaign when it wants to keep what it has found."""
    old = tmp_path / "corpus" / "failing" / "comparison-windows-b5dbfe05.jsonl"
    old.parent.mkdir(parents=True)
    old.write_text("old\n")
    done = fuzz(tmp_path, "--cases", 16, "--implementation", MODEL)
    assert (done.returncode, old.name in done.stderr, done.stdout) == (3, True, "")


def test_ctrl_c_without_a_failure_is_no_verdict(tmp_path: Path) -> None:
    """If this fails, a campaign that was stopped looks as if it had found nothing wrong."""
    words = command("fuzz", "--minutes", 5, "--implementation", MODEL)
    with subprocess.Popen(
        words, cwd=tmp_path, env=clean(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("corpus/coverage/*.jsonl")) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 5
    assert "no verdict" in err
    assert Corpus(tmp_path / "corpus").covering()


def test_a_kill_of_the_campaign_leaves_a_corpus_to_go_on_with(tmp_path: Path) -> None:
    """If this fails, the machine's restart costs the corpus."""
    words = command("fuzz", "--minutes", 5, "--implementation", MODEL)
    with subprocess.Popen(
        words, cwd=tmp_path, env=clean(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("corpus/coverage/*"))) < 5 and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    before = Corpus(tmp_path / "corpus").covering()
    assert before
    done = fuzz(tmp_path, "--cases", 16, "--goal", "none", "--implementation", MODEL)
    assert done.returncode == 0
    assert f"{16 + len(before)} passed" in done.stdout


@pytest.fixture(name="covering")
def corpus_that_hits_everything(tmp_path: Path) -> Path:
    shutil.copytree(POINTS, tmp_path / "corpus" / "coverage")
    return tmp_path


def test_a_campaign_that_hits_every_point_reaches_its_goal(covering: Path) -> None:
    """If this fails, the goal cannot be reached."""
    done = fuzz(covering, "--cases", 16, "--implementation", MODEL)
    assert (done.returncode, done.stdout.count("never hit")) == (0, 0)


def test_a_planted_blind_spot_misses_the_goal(covering: Path) -> None:
    """If this fails, a campaign in which no idle step ever fails is taken for a full one."""
    point = "fault/hidden in a idle step"
    corpus = Corpus(covering / "corpus")
    for trace in corpus.covering():
        if point in points(trace):
            corpus.drop(trace)
    words = "--cases", 16, "--seed", 3, "--implementation", MODEL
    assert fuzz(covering, *words, "--goal", "none").returncode == 0
    done = fuzz(covering, *words)
    assert done.returncode == 6
    assert f"{point}: a fault at 'hidden'" in done.stdout
    assert "a coverage goal was missed" in done.stdout


def test_a_minimal_corpus_covers_as_much(tmp_path: Path) -> None:
    """If this fails, making a corpus minimal loses what it was kept for."""

    def size(folder: Path) -> tuple[int, set[object]]:
        traces: list[Trace] = Corpus(folder / "corpus").covering()
        return sum(len(encode(t)) for t in traces), {p for t in traces for p in points(t)}

    words = ("fuzz", "--cases", 16, "--goal", "none", "--seed", 2, "--implementation", MODEL)
    for name, more in (("plain", ()), ("minimal", ("--minimal",))):
        (tmp_path / name).mkdir()
        assert draftproof(*words, *more, cwd=tmp_path / name).returncode == 0
    (plain, before), (minimal, after) = size(tmp_path / "plain"), size(tmp_path / "minimal")
    assert minimal < plain
    assert before <= after


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "say how long"),
        (("--minutes", 0.00001, "--implementation", MODEL), 5, "no verdict: time ran out"),
        (("--cases", 16, "--implementation", "nowhere:make"), 4, "nowhere"),
    ],
)
def test_what_cannot_be_is_said(
    tmp_path: Path, words: tuple[object, ...], code: int, said: str
) -> None:
    """If this fails, a campaign that checked nothing looks like one that did."""
    done = fuzz(tmp_path, *words)
    assert done.returncode == code
    assert said in done.stderr
