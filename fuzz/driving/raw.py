"""Bytes from outside: any byte fuzzer can drive schedules, Hypothesis turning bytes into draws.

`fuzz_one_input(subject)` returns a function of a buffer. It raises the Divergence that a buffer
leads to, which a fuzzer takes for a crash, and returns the bytes that were used, or None if the
buffer makes no schedule. For atheris (not tried here):

    atheris.Setup(sys.argv, fuzz_one_input(subject))
    atheris.Fuzz()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from hypothesis import given, settings

from draftproof.fuzz.cases import EVENTS_PER_CASE, Subject
from draftproof.properties.strategies import runs
from draftproof.sim.run import Run

OneInput = Callable[[bytes], bytes | None]


def fuzz_one_input(subject: Subject, seen: Callable[[Run], None] = lambda run: None) -> OneInput:
    """What a byte fuzzer calls. seen: told of every run that nothing is wrong with."""

    @settings(database=None, deadline=None)
    @given(runs(EVENTS_PER_CASE, subject.make_engine))
    def one(run: Run) -> None:
        subject.judge(run)
        seen(run)

    return cast("OneInput", cast("Any", one).hypothesis.fuzz_one_input)
