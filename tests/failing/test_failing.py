"""Every trace in this folder is a test: nothing goes wrong in it (any more).

A failing trace becomes one by being put here, under any name that ends in `.jsonl`: from `traces/`
of `draftproof check`, or from `failing/` of a corpus. It runs on the implementation that it names;
where that may be the end of its process, or of which nothing is known, by `draftproof replay`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from draftproof.fuzz.campaign.pool import DEATH, HANG
from draftproof.fuzz.subjects import failure_of, subject_of
from draftproof.sim.traces import load

TRACES = sorted(Path(__file__).parent.glob("*.jsonl"))
DEFAULTS = argparse.Namespace(implementation=None, option={}, device=None, step_timeout=60.0)
SECONDS = 600.0
"""For a replay in a process of its own, which by itself ends a step that hangs."""


class _Silent:
    """Instead of a beacon: nobody watches a test from outside."""

    def beat(self) -> None:
        """A step begins."""


@pytest.mark.parametrize("path", TRACES, ids=[path.stem for path in TRACES])
def test_nothing_goes_wrong(path: Path, tmp_path: Path) -> None:
    """If this fails, what once went wrong in this trace goes wrong again."""
    trace = load(path)
    if trace.failure in (None, DEATH, HANG):  # `draftproof check` saves deaths without a failure
        said = _replayed_elsewhere(path, tmp_path)
        assert said is None, f"\n{said}"
        return
    divergence = failure_of(subject_of(trace, DEFAULTS, cast("Any", _Silent())), trace)
    assert divergence is None, f"\n{divergence}"


def _replayed_elsewhere(path: Path, folder: Path) -> str | None:
    """What is said if something goes wrong."""
    command = [sys.executable, "-m", "draftproof.fuzz.cli", "replay", str(path)]
    command += ["--trace-dir", str(folder), "--step-timeout", str(DEFAULTS.step_timeout)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        try:
            said, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()  # not killed, so that it ends its own child
            return f"no end in {SECONDS:g} s"
    return said if process.returncode else None
