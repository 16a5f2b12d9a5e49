"""Every trace in this folder is a test: nothing goes wrong in it (any more).

A failing trace becomes one by being put here, under any name that ends in `.jsonl`: from `traces/`
of `draftproof check`, or from `failing/` of a corpus. It runs on the implementation that it names.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, cast

import pytest

from draftproof.fuzz.subjects import failure_of, subject_of
from draftproof.sim.traces import load

TRACES = sorted(Path(__file__).parent.glob("*.jsonl"))
DEFAULTS = argparse.Namespace(implementation=None, option={}, device=None, step_timeout=60.0)


class _Silent:
    """Instead of a beacon: nobody watches a test from outside."""

    def beat(self) -> None:
        """A step begins."""


@pytest.mark.parametrize("path", TRACES, ids=[path.stem for path in TRACES])
def test_nothing_goes_wrong(path: Path) -> None:
    """If this fails, what once went wrong in this trace goes wrong again."""
    trace = load(path)
    divergence = failure_of(subject_of(trace, DEFAULTS, cast("Any", _Silent())), trace)
    assert divergence is None, f"\n{divergence}"
