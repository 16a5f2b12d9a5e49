"""`draftproof shrink`: makes a failing trace minimal, keeping its kind of failure."""

from __future__ import annotations

import argparse

from draftproof.fuzz.failures import examine
from draftproof.fuzz.subjects import failure_of, subject_of
from draftproof.fuzz.supervise import Beacon, supervised
from draftproof.sim.errors import UsageError
from draftproof.sim.files import check_all_writable
from draftproof.sim.traces import load, save


def run(arguments: argparse.Namespace) -> int:
    """Exit code 1 (the trace fails, and the minimal one is saved), 2 if it does not fail."""
    return supervised(arguments, _run)


def _run(arguments: argparse.Namespace, beacon: Beacon) -> int:
    trace = load(arguments.trace)
    check_all_writable([arguments.out])
    subject = subject_of(trace, arguments, beacon)
    beacon.show(trace)
    divergence = failure_of(subject, trace)
    if divergence is None:
        raise UsageError(f"{arguments.trace}: nothing goes wrong, so there is nothing to shrink")
    failure = examine(subject, trace, divergence)
    beacon.go_home()
    save(failure.trace, arguments.out)
    print("\n".join(failure.lines(arguments.out, arguments.step_timeout)))
    return failure.divergence.exit_code
