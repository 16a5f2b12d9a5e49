"""`draftproof replay`: a saved trace again."""

from __future__ import annotations

import argparse

from draftproof.fuzz.report import failure_report
from draftproof.fuzz.subjects import failure_of, subject_of
from draftproof.fuzz.supervise import Beacon, supervised
from draftproof.sim.traces import load


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 if nothing goes wrong, 1 if something does, 3 or 4 as in the README."""
    return supervised(arguments, _run)


def _run(arguments: argparse.Namespace, beacon: Beacon) -> int:
    trace = load(arguments.trace)
    subject = subject_of(trace, arguments, beacon)
    beacon.show(trace)
    divergence = failure_of(subject, trace)
    if divergence is None:
        tested = arguments.implementation or trace.implementation or "engine and model alone"
        print(f"{arguments.trace}: {len(trace.events)} events, nothing goes wrong ({tested})")
        return 0
    report = failure_report(divergence, trace, arguments.trace, arguments.step_timeout)
    print("\n".join(report))
    return divergence.exit_code
