"""Ranks that are processes: they agree, or their hang is told with a stack of each, and all end."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from command import clean, command, draftproof

CROSSING = "draftproof.gpu.defects.crossing"

pytestmark = pytest.mark.timeout(400)  # each process loads torch


def test_real_processes_agree(tmp_path: Path) -> None:
    """If this fails, a correct worker cannot be checked on real ranks."""
    done = draftproof("ranks", "--processes", 2, "--examples", 6, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.fullmatch(r"6 cases, (\d+) steps on 2 processes: they agree\n", done.stdout)
    assert told is not None
    assert int(told[1]) > 100
    assert list(tmp_path.iterdir()) == []


def test_a_real_hang_ends_with_exit_code_1_and_every_stack(tmp_path: Path) -> None:
    """If this fails, a rank that never arrives keeps its peers, and whoever waits, for ever."""
    faulty = f"{CROSSING}:ZeroStepDoesNotCross"
    more = ("--processes", 2, "--examples", 20, "--patience", 8, "--implementation", faulty)
    done = draftproof_with_stacks(*more, cwd=tmp_path)
    assert done.startswith("---- rank 0 ")
    for rank in (0, 1):
        part = done.split(f"---- rank {rank} ")[1].split("---- rank ")[0]
        assert "Timeout (0:00:08)!" in part
        assert "rank_process.py" in part
    assert "in _pass" in done  # one waits at the barrier


def test_ranks_that_meet_and_disagree_are_told(tmp_path: Path) -> None:
    """If this fails, ranks with different row counts go on with each other's rows."""
    faulty = f"{CROSSING}:IdleRankMiscounts"
    more = ("--processes", 2, "--examples", 20, "--patience", 8, "--implementation", faulty)
    done = draftproof_with_stacks(*more, cwd=tmp_path)
    assert "found by     deadlock" in done
    pattern = r"expected     stage 0, rows \[.*\]\nfound        rank [01] is at stage 0"
    assert re.search(pattern, done)


def draftproof_with_stacks(*arguments: object, cwd: Path) -> str:
    """What the command says that ends with exit code 1; there are tracebacks in it."""
    done = subprocess.run(
        command("ranks", *arguments), cwd=cwd, capture_output=True, text=True, check=False,
        env=clean(),
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout
