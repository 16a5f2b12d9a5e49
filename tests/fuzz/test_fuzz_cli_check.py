"""`draftproof check`, `replay` and `shrink` as users run them: verdicts and exit codes."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from batches import small
from command import MODEL, draftproof

from draftproof.fuzz.amount import Amount
from draftproof.reference.config import checked
from draftproof.sim.errors import NoVerdict
from draftproof.sim.events import Step
from draftproof.sim.traces import Trace, load, save


def saved(folder: Path) -> dict[str, bytes]:
    """Every file below the folder's `traces`, by name."""
    return {path.name: path.read_bytes() for path in sorted((folder / "traces").iterdir())}


def test_nothing_wrong_is_0_and_says_what_was_exercised(folder: Path) -> None:
    """If this fails, a good implementation is not told that it is good, or of how much."""
    done = draftproof("check", "--implementation", MODEL, "--examples", 30, cwd=folder)
    assert done.returncode == 0
    assert all(line.endswith(" steps/s") for line in done.stderr.splitlines()), "progress only"
    lines = done.stdout.splitlines()
    assert lines[0] == f"checking {MODEL} on cpu, seed 0"
    assert lines[1] == "cases            30"
    assert lines[-2] == "not checked      nothing"
    assert lines[-1].startswith("no difference found in ")
    assert saved(folder) == {}


def test_what_is_not_shown_is_reported(folder: Path) -> None:
    """If this fails, a verdict keeps quiet about what it does not cover."""
    done = draftproof("check", "--implementation", "faulty.py:ShowsLittle", "--examples", 3,
                      cwd=folder)  # fmt: skip
    assert done.returncode == 0
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("not checked")]
    assert "free_slots" in line
    assert "windows" in line
    assert " slots" not in line


def test_configurations_that_the_factory_refuses_are_passed_over_and_told(folder: Path) -> None:
    """If this fails, a worker with fewer features cannot be checked, or the gap is not told."""
    done = draftproof("check", "--implementation", "faulty.py:Refuses", "--examples", 5, cwd=folder)
    assert done.returncode == 0
    assert "cases            5\n" in done.stdout
    assert " cases that the factory refused: one stage only\n" in done.stdout


def test_a_failure_is_1_shrunk_saved_and_replayed_by_the_printed_command(folder: Path) -> None:
    """If this fails, a failure is lost, or the command that is printed does not show it again."""
    done = draftproof("check", "--implementation", "faulty.py:Wrong", "--steps", 100, cwd=folder)
    assert (done.returncode, done.stderr) == (1, "")
    files = saved(folder)
    assert sorted(files) == [
        "comparison-draft_seq-seed0-case0-whole.jsonl",
        "comparison-draft_seq-seed0-case0.jsonl",
    ]
    whole = load(folder / "traces" / "comparison-draft_seq-seed0-case0-whole.jsonl")
    shrunk = load(folder / "traces" / "comparison-draft_seq-seed0-case0.jsonl")
    assert len(whole.events) == 40
    assert shrunk.events == (Step(), Step(), Step())
    assert shrunk.implementation == "faulty.py:Wrong"
    assert "fails        10 of 10 replays\nshrunk       from 40 events\n" in done.stdout
    (printed,) = [line for line in done.stdout.splitlines() if line.startswith("replay ")]
    program, *words = shlex.split(printed.removeprefix("replay"))
    assert program == "draftproof"
    again = draftproof(*words, cwd=folder)
    assert (again.returncode, again.stderr) == (1, "")
    assert again.stdout in done.stdout, "the same report"


def test_a_second_run_overwrites_nothing(folder: Path) -> None:
    """If this fails, a failure of today destroys that of yesterday."""
    traces = folder / "traces"
    traces.mkdir()
    name = "comparison-draft_seq-seed0-case0.jsonl"
    save(Trace(checked(small()), ()), traces / name)
    before = saved(folder)
    for _ in range(2):
        draftproof("check", "--implementation", "faulty.py:Wrong", "--steps", 9, cwd=folder)
    after = saved(folder)
    assert after[name] == before[name]
    assert sorted(after) == [
        "comparison-draft_seq-seed0-case0-1.jsonl",
        "comparison-draft_seq-seed0-case0-whole.jsonl",
        name,
    ]


def test_a_seed_gives_the_same_bytes_whatever_the_hash_seed(folder: Path, tmp_path: Path) -> None:
    """If this fails, a failure found on one machine is not found on another."""
    found = []
    for hash_seed in ("1", "2"):
        where = folder / hash_seed
        where.mkdir()
        (where / "faulty.py").write_bytes((folder / "faulty.py").read_bytes())
        done = draftproof(
            "check", "--implementation", "faulty.py:Wrong", "--seed", 5, "-o", "after=5",
            "-o", "b=1", "-o", "a=2", cwd=where, PYTHONHASHSEED=hash_seed,
        )  # fmt: skip
        assert done.returncode == 1
        found.append(saved(where))
    assert found[0] == found[1]
    assert len(found[0]) == 2


@pytest.mark.parametrize(
    ("factory", "field", "found"),
    [
        (("faulty.py:Raises",), "RuntimeError", "out of registers"),
        (("faulty.py:Exits", "-o", "code=0"), "SystemExit", "0"),
    ],
)
def test_an_exception_is_1_whatever_it_is(
    folder: Path, factory: tuple[str, ...], field: str, found: str
) -> None:
    """If this fails, a worker that calls sys.exit(0) passes for correct, or nothing is saved."""
    done = draftproof("check", "--implementation", *factory, "--steps", 9, cwd=folder)
    assert (done.returncode, done.stderr) == (1, "")
    assert "found by     exception\n" in done.stdout
    assert f"field        {field}\nexpected     no exception\nfound        {found}\n" in done.stdout
    assert f"exception-{field}-seed0-case0.jsonl" in saved(folder)


def test_time_that_runs_out_before_the_minimum_is_5(folder: Path) -> None:
    """If this fails, a run that checked next to nothing passes for a verdict."""
    for minimum in (("--steps", 10**9), ("--examples", 10**9), ()):
        done = draftproof("check", "--implementation", MODEL, "--minutes", 1e-6, *minimum,
                          cwd=folder)  # fmt: skip
        assert done.returncode == 5
        assert done.stderr.startswith("draftproof: no verdict: time ran out after ")
        assert done.stderr.endswith("; give more --minutes\n")


def test_time_alone_is_a_verdict_after_enough_steps() -> None:
    """If this fails, `--minutes` alone never gives a verdict, or gives one about nothing."""
    timed = Amount(None, None, 1.0, 1000)
    assert not timed.over(9, 10**6, 59.9)
    assert timed.over(9, 1000, 60)
    assert Amount(None, None, 1.0, 999).over(9, 999, 60)
    assert Amount(9, 10**9, None, 1000).over(9, 0, 0)
    assert Amount(None, 999, None, 1000).over(0, 999, 0)
    assert not Amount(10, 1000, None, 1000).over(9, 999, 1e9)
    for amount, steps in ((timed, 999), (replace(timed, steps=2000), 1000)):
        with pytest.raises(NoVerdict, match=f"time ran out after {steps:,} steps in 9 cases"):
            amount.over(9, steps, 60)
    with pytest.raises(NoVerdict):
        replace(timed, cases=10).over(9, 1000, 60)


@pytest.mark.parametrize("ranks", [(), ("--ranks", 2)])
def test_time_alone_ends_a_check_on_any_number_of_ranks(
    folder: Path, ranks: tuple[object, ...]
) -> None:
    """If this fails, `--minutes` and `--least` mean something else for ranks, or nothing."""
    words = ("check", "--implementation", MODEL, "--minutes", 0.01, "--least", 1, *ranks)
    done = draftproof(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "no difference found in " in done.stdout


def test_shrink_makes_a_failing_trace_minimal_and_leaves_it_alone(folder: Path) -> None:
    """If this fails, a trace from a campaign cannot be made minimal afterwards."""
    whole = folder / "whole.jsonl"
    save(Trace(checked(small()), (Step(),) * 9, "faulty.py:Wrong"), whole)
    before = whole.read_bytes()
    done = draftproof("shrink", "whole.jsonl", "--out", "new/small.jsonl", cwd=folder)
    assert (done.returncode, done.stderr) == (1, "")
    assert whole.read_bytes() == before
    small_one = load(folder / "new" / "small.jsonl")
    assert small_one.events == (Step(),) * 3
    assert small_one.failure == ("comparison", "draft_seq")
    assert "trace        new/small.jsonl (3 events)\n" in done.stdout
    assert draftproof("replay", "new/small.jsonl", cwd=folder).returncode == 1


def test_shrink_has_nothing_to_do_if_nothing_goes_wrong(folder: Path) -> None:
    """If this fails, a trace that passes is reported as failing."""
    save(Trace(checked(small()), (Step(),), MODEL), folder / "t.jsonl")
    done = draftproof("shrink", "t.jsonl", "--out", "out.jsonl", cwd=folder)
    assert done.returncode == 2
    assert done.stderr == (
        "draftproof: t.jsonl: nothing goes wrong, so there is nothing to shrink\n"
    )
    assert not (folder / "out.jsonl").exists()


def test_replay_runs_the_given_implementation_instead_of_the_traces(folder: Path) -> None:
    """If this fails, a fix cannot be tried on the trace of its bug."""
    save(Trace(checked(small()), (Step(),) * 3, "faulty.py:Wrong"), folder / "t.jsonl")
    assert draftproof("replay", "t.jsonl", cwd=folder).returncode == 1
    fixed = draftproof("replay", "t.jsonl", "--implementation", MODEL, cwd=folder)
    told = f"t.jsonl: 3 events, nothing goes wrong ({MODEL})\n"
    assert (fixed.returncode, fixed.stdout) == (0, told)
    later = draftproof("replay", "t.jsonl", "-o", "after=4", cwd=folder)
    assert later.returncode == 0
