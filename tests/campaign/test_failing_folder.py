"""A failing trace becomes a test by being put into `tests/failing`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
from command import clean

from draftproof.sim.traces import load, save

FOLDER = Path(__file__).parent.parent / "failing"
DEFECT = "draftproof.gpu.defects.windows:FrameOffByOne"


def run_with(folder: Path, implementation: str) -> subprocess.CompletedProcess[str]:
    """The tests of a copy of the folder, with one more trace in it."""
    shutil.copytree(FOLDER, folder)
    trace = load(next(iter(sorted(FOLDER.glob("*.jsonl")))))
    save(msgspec.structs.replace(trace, implementation=implementation), folder / "new.jsonl")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
        cwd=folder, env=clean(), capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_trace_that_fails_is_a_test_that_fails(tmp_path: Path) -> None:
    """If this fails, a failing trace in the folder is looked at by nobody."""
    done = run_with(tmp_path / "red", DEFECT)
    assert done.returncode == 1, done.stdout
    assert "test_nothing_goes_wrong[new]" in done.stdout
    assert "1 failed" in done.stdout
    assert "found by     comparison" in done.stdout


def test_once_mended_it_is_green(tmp_path: Path) -> None:
    """If this fails, a mended failure stays red."""
    done = run_with(tmp_path / "green", "draftproof.gpu.worker:make")
    assert done.returncode == 0, done.stdout
