"""Ranks that are processes: they agree, or their hang is told with a stack of each, and all end."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from command import clean, command, draftproof

from draftproof.fuzz.ranks.process import place

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
        assert "ranks/process.py" in part
    assert "in _pass" in done  # one waits at the barrier


def test_ranks_that_meet_and_disagree_are_told(tmp_path: Path) -> None:
    """If this fails, ranks with different row counts go on with each other's rows."""
    faulty = f"{CROSSING}:IdleRankMiscounts"
    more = ("--processes", 2, "--examples", 20, "--patience", 8, "--implementation", faulty)
    done = draftproof_with_stacks(*more, cwd=tmp_path)
    assert "found by     deadlock" in done
    pattern = r"expected     stage 0, rows \[.*\]\nfound        rank [01] is at stage 0"
    assert re.search(pattern, done)


SEAMS_ALONE = """
from dataclasses import replace
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import SEAMS

def make(config, device, lent):
    at = lambda seam: lent.at(seam) if seam in SEAMS else None
    return Model(config, replace(lent, at=at))
"""


def test_a_worker_without_optional_seams_passes_on_real_processes(tmp_path: Path) -> None:
    """If this fails, a rank whose fault finds no seam leaves its peers, or is called wrong."""
    (tmp_path / "theirs.py").write_text(SEAMS_ALONE)
    more = ("--processes", 2, "--examples", 8, "--implementation", "theirs.py:make")
    done = draftproof("ranks", *more, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\n[1-8] cases ended at a fault whose seam the impl", done.stdout)


def test_a_worker_that_cannot_be_made_is_4(tmp_path: Path) -> None:
    """If this fails, a device that is not there is told with a stack of every rank."""
    done = draftproof("ranks", "--processes", 2, "--device", "abacus", cwd=tmp_path)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "its factory raised" in done.stderr
    assert "abacus" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("device", "rank", "ranks", "gpus", "placed"),
    [
        ("cpu", 1, 2, 8, ("gloo", None)),
        ("cuda", 1, 2, 0, ("gloo", None)),
        ("cuda", 1, 2, 2, ("nccl", 1)),
        ("cuda", 3, 4, 8, ("nccl", 3)),
        ("cuda", 3, 4, 2, ("gloo", 1)),
    ],
)
def test_where_a_rank_is_and_by_what_it_talks(
    device: str, rank: int, ranks: int, gpus: int, placed: tuple[str, int | None]
) -> None:
    """If this fails, two ranks of nccl are on one GPU, or a worker on a CPU talks by nccl."""
    assert place(device, rank, ranks, gpus) == placed


def draftproof_with_stacks(*arguments: object, cwd: Path) -> str:
    """What the command says that ends with exit code 1; there are tracebacks in it."""
    done = subprocess.run(
        command("ranks", *arguments), cwd=cwd, capture_output=True, text=True, check=False,
        env=clean(),
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout
