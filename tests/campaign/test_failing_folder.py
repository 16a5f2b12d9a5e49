"""A failing trace becomes a test by being put into `tests/failing`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command import clean

from draftproof.fuzz.campaign.pool import DEATH, HANG
from draftproof.reference.config import checked
from draftproof.reference.vocabulary import Config
from draftproof.sim.events import Step, Submit
from draftproof.sim.traces import load, save

FOLDER = Path(__file__).parent.parent / "failing"
TROUBLED = Path(__file__).parent / "data" / "troubled.py"
DEFECT = "draftproof.gpu.defects.windows:FrameOffByOne"


def run_with(folder: Path, implementation: str, **other: Any) -> subprocess.CompletedProcess[str]:
    """The tests of a copy of the folder, with one more trace in it; a step may take 5 s there."""
    shutil.copytree(FOLDER, folder)
    text = (folder / "test_failing.py").read_text()
    assert "step_timeout=60.0" in text
    (folder / "test_failing.py").write_text(text.replace("step_timeout=60.0", "step_timeout=5.0"))
    trace = load(next(iter(sorted(FOLDER.glob("*.jsonl")))))
    trace = msgspec.structs.replace(trace, implementation=implementation, **other)
    save(trace, folder / "new.jsonl")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
        cwd=folder, env=clean(), capture_output=True, text=True, check=False, timeout=120,
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


@pytest.mark.parametrize(
    ("defect", "failure", "said"),
    [
        ("DiesOfResets", DEATH, "process died (killed by SIGKILL)"),
        ("DiesOfResets", None, "process died (killed by SIGKILL)"),
        ("HangsInC", HANG, "the implementation hung in the case"),
    ],
)
def test_what_ends_its_process_is_a_test_that_fails(
    tmp_path: Path, defect: str, failure: tuple[str, str] | None, said: str
) -> None:
    """If this fails, one trace in the folder ends the whole run of the tests, or hangs it."""
    events = (*(Submit(i, imported=True) for i in range(5)), Step())
    done = run_with(
        tmp_path / "red", f"{TROUBLED}:{defect}", failure=failure, events=events,
        config=checked(Config(2, 3, 1, 5)),
    )  # fmt: skip
    assert done.returncode == 1, done.stdout
    assert said in done.stdout
    assert "1 failed, 1 passed" in done.stdout
