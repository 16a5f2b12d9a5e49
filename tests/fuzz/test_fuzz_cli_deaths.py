"""Implementations that die or hang, and users who press Ctrl-C: there is always an answer."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from command import MODEL, clean, command, draftproof

from draftproof.fuzz.supervise import _wait
from draftproof.sim.traces import load


@pytest.mark.parametrize(
    ("options", "how"),
    [
        ((), "killed by SIGKILL"),
        (("-o", "code=0"), "exit code 0"),
        (("-o", "code=1"), "exit code 1"),
        (("-o", "code=77"), "exit code 77"),
    ],
)
def test_a_process_that_dies_is_4_with_its_trace_saved(
    folder: Path, options: tuple[str, ...], how: str
) -> None:
    """If this fails, a crash of the implementation is lost, or passes for something else."""
    done = draftproof("check", "--implementation", "faulty.py:Dies", *options, cwd=folder)
    assert done.returncode == 4
    assert done.stderr == (
        f"draftproof: the implementation's process died ({how}) "
        "in the case saved as traces/death.jsonl\n"
    )
    trace = load(folder / "traces" / "death.jsonl")
    assert len(trace.events) == 40
    assert trace.implementation == "faulty.py:Dies"


def test_the_trace_of_a_death_dies_again_and_passes_with_another_implementation(
    folder: Path,
) -> None:
    """If this fails, a crash cannot be looked into, or `replay` and `shrink` crash with it."""
    draftproof("check", "--implementation", "faulty.py:Dies", cwd=folder)
    for words in (("replay",), ("shrink", "--out", "out.jsonl")):
        again = draftproof(*words, "traces/death.jsonl", cwd=folder)
        assert again.returncode == 4
        assert again.stderr.endswith("in the case saved as traces/death.jsonl\n")
    fixed = draftproof("replay", "traces/death.jsonl", "--implementation", MODEL, cwd=folder)
    assert fixed.returncode == 0


@pytest.mark.parametrize("text", ["import os; os._exit(0)", "import os; os.abort()"])
def test_a_process_that_dies_before_its_first_case_is_4(folder: Path, text: str) -> None:
    """If this fails, an implementation that dies at import passes for correct."""
    (folder / "dying.py").write_text(text)
    done = draftproof("check", "--implementation", "dying.py:make", cwd=folder)
    assert done.returncode == 4
    assert done.stderr.endswith(") before its first case\n")


def test_an_implementation_cannot_take_its_verdict_back(folder: Path) -> None:
    """If this fails, a wrong implementation that ends the process itself passes for right."""
    done = draftproof("check", "--implementation", "faulty.py:HasTheLastWord", cwd=folder)
    assert done.returncode == 1
    assert "fails        10 of 10 replays\n" in done.stdout


def test_a_thread_that_never_ends_does_not_keep_the_command(folder: Path) -> None:
    """If this fails, the verdict is told, and the command hangs."""
    done = draftproof(
        "check", "--implementation", "faulty.py:LeavesAThread", "--examples", 1, cwd=folder
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_traces_are_saved_where_the_command_began(folder: Path) -> None:
    """If this fails, a worker that changes the working directory takes its traces along."""
    done = draftproof("check", "--implementation", "faulty.py:Wanders", cwd=folder)
    assert (done.returncode, done.stderr) == (1, "")
    assert len(list((folder / "traces").iterdir())) == 2


def test_what_is_raised_need_not_be_an_exception(folder: Path) -> None:
    """If this fails, a panic of a library is a traceback of ours, and its trace is lost."""
    done = draftproof("check", "--implementation", "faulty.py:Panics", cwd=folder)
    assert (done.returncode, done.stderr) == (1, "")
    assert "found        out of \\ud800 registers\n" in done.stdout


def test_a_hang_in_python_is_1_shrunk_and_saved(folder: Path) -> None:
    """If this fails, a worker that waits for ever stops the campaign for ever."""
    done = draftproof(
        "check", "--implementation", "faulty.py:Sleeps", "-o", "after=1", "--step-timeout", 0.2,
        cwd=folder,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    assert "found by     hang\n" in done.stdout
    assert "expected     a step within 0.2 s\nfound        no answer\n" in done.stdout
    assert len(load(folder / "traces" / "hang-timeout-seed0-case0.jsonl").events) == 1


def test_a_hang_that_holds_the_interpreters_lock_is_1_with_trace_and_stack(folder: Path) -> None:
    """If this fails, a worker that hangs in C stops the campaign for ever."""
    done = subprocess.run(
        command("check", "--implementation", "faulty.py:HoldsTheLock", "--step-timeout", 0.5),
        cwd=folder, env=clean(), capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("Timeout (0:00:11")
    assert 'faulty.py", line' in done.stderr
    assert " in happen\n" in done.stderr
    assert done.stderr.endswith(
        "draftproof: the implementation hung in the case saved as traces/hang.jsonl\n"
    )
    assert len(load(folder / "traces" / "hang.jsonl").events) == 40


def interrupted(folder: Path, factory: str, line: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a check that gets Ctrl-C after a line on its stdout."""
    child = subprocess.Popen(
        command("check", "--implementation", factory, "--steps", 10**9),
        cwd=folder, env=clean(), text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    lines: list[str] = []
    while not lines or line not in lines[-1]:
        lines.append(child.stdout.readline())
        assert lines[-1], "it ended before it was interrupted"
    os.killpg(child.pid, signal.SIGINT)
    rest, errors = child.communicate(timeout=100)
    return child.returncode, "".join(lines) + rest, errors


def test_ctrl_c_is_5_without_a_traceback(folder: Path) -> None:
    """If this fails, whoever stops a campaign is shown our insides, or a verdict."""
    code, _, errors = interrupted(folder, MODEL, "checking ")
    assert errors.endswith("draftproof: interrupted, no verdict\n")
    assert "Traceback" not in errors
    assert code == 5


def test_ctrl_c_while_shrinking_keeps_what_was_found(folder: Path) -> None:
    """If this fails, a failure that was already found is not told."""
    code, text, errors = interrupted(folder, "faulty.py:WrongThenSleeps", "shrinking ...")
    assert "interrupted, so not shrunk:\nfound by     comparison\n" in text
    assert (code, errors) == (1, "")
    assert [path.name for path in (folder / "traces").iterdir()] == [
        "comparison-draft_seq-seed0-case0-whole.jsonl"
    ]


class Child:
    """Stands for the process that is waited for: Ctrl-C comes so often, then it has ended."""

    def __init__(self, interrupts: int, code: int) -> None:
        self.interrupts = interrupts
        self.code = code

    def wait(self) -> int:
        self.interrupts -= 1
        if self.interrupts >= 0:
            raise KeyboardInterrupt
        return self.code


def test_ctrl_c_before_the_child_has_begun_is_not_a_death() -> None:
    """If this fails, Ctrl-C at the start is reported as a crash of the implementation."""
    with pytest.raises(KeyboardInterrupt):
        _wait(Child(1, -signal.SIGINT))  # type: ignore[arg-type]  # all of Popen that is used
    for code in (0, 1, 5, -signal.SIGKILL):
        assert _wait(Child(2, code)) == code  # type: ignore[arg-type]  # all of Popen that is used
    assert _wait(Child(0, -signal.SIGINT)) == -signal.SIGINT  # type: ignore[arg-type]  # as above


def test_whoever_ends_the_command_ends_its_process_too(folder: Path) -> None:
    """If this fails, a check that a job manager ended goes on for hours, and nobody sees it."""
    check = subprocess.Popen(
        command("check", "--implementation", MODEL, "--steps", 10**9),
        cwd=folder, env=clean(), text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert check.stdout is not None
    try:
        assert check.stdout.readline().startswith("checking ")
        check.terminate()
        check.communicate(timeout=30)  # its process would hold the pipe open
        assert check.returncode == 128 + signal.SIGTERM
    finally:
        with suppress(ProcessLookupError):
            os.killpg(check.pid, signal.SIGKILL)
