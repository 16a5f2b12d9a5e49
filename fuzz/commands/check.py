"""`draftproof check`: the main job, random schedules, model against implementation."""

from __future__ import annotations

import argparse
import sys
from itertools import count
from time import perf_counter

from draftproof.fuzz.amount import Amount, amount_of
from draftproof.fuzz.cases import Subject, seeded_case
from draftproof.fuzz.collector import calm_collector
from draftproof.fuzz.driving.wide import widened
from draftproof.fuzz.failures import examine, save_new
from draftproof.fuzz.ranks.campaign import campaign_of_ranks
from draftproof.fuzz.refused import refuse
from draftproof.fuzz.summary import Summary
from draftproof.fuzz.supervise import Beacon, goes_wrong_alone, supervised
from draftproof.reference.vocabulary import ConfigError
from draftproof.sim.divergence import Divergence
from draftproof.sim.files import check_writable
from draftproof.sim.loading import load
from draftproof.sim.lockstep import Checked
from draftproof.sim.run import Run
from draftproof.sim.traces import Trace

make_case = widened(seeded_case)

TWICE_EVERY = 20
"""One case in so many is run twice, so that non-determinism is itself found."""
NEW_PROCESS = 60.0
"""Seconds that a new process has to replay a shrunk trace."""
OUTSIDE = (
    "nothing goes wrong in a new process: the implementation keeps something outside of its "
    "worker, so earlier cases matter; the same `draftproof check` shows it again"
)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0, 1 (a failure, shrunk and saved), 4, or 5 (out of time before the minimum)."""
    return supervised(arguments, campaign_of_ranks if arguments.ranks else campaign)


def campaign(arguments: argparse.Namespace, beacon: Beacon) -> int:
    """The work itself, in the process that may die of it."""
    amount = amount_of(arguments)
    check_writable(arguments.trace_dir)
    make = load(arguments.implementation, arguments.device, arguments.option)
    calm_collector()
    subject = Subject(make, step_timeout=arguments.step_timeout, alive=beacon.beat)
    print(
        f"checking {arguments.implementation} on {arguments.device}, seed {arguments.seed}",
        flush=True,
    )
    summary, start = Summary(), perf_counter()
    told = start
    for index in count():
        if amount.over(summary.cases, summary.steps, perf_counter() - start):
            break
        case = make_case(arguments.seed, index)
        trace = _trace(arguments, case)
        beacon.show(trace)
        try:
            summary.add(case, _judge(subject, case, index))
        except ConfigError as error:
            refuse(summary.refused, error, summary.cases)
        except Divergence as divergence:
            _tell_failure(arguments, subject, beacon, trace, divergence, index)
            return divergence.exit_code
        if summary.cases and perf_counter() - told > 2:
            told = perf_counter()
            _progress(summary, amount, told - start)
    seconds = perf_counter() - start
    print("\n".join(summary.lines()))
    print(f"no difference found in {seconds:.1f} s, {summary.steps / seconds:,.0f} steps/s")
    return 0


def _judge(subject: Subject, case: Run, index: int) -> Checked:
    if index % TWICE_EVERY == 0:
        subject.judge(case)
    return subject.judge(case)


def _trace(arguments: argparse.Namespace, case: Run) -> Trace:
    return Trace(
        config=case.config,
        events=tuple(case.events),
        implementation=arguments.implementation,
        options=arguments.option,
        device=arguments.device,
    )


def _tell_failure(
    arguments: argparse.Namespace,
    subject: Subject,
    beacon: Beacon,
    trace: Trace,
    divergence: Divergence,
    index: int,
) -> None:
    """Save first, then shrink: a failure is never lost."""
    field = "".join(c if c.isalnum() else "_" for c in divergence.field)
    stem = f"{divergence.oracle}-{field}-seed{arguments.seed}-case{index}"
    stem = stem.replace(" ", "_")
    beacon.go_home()
    first = save_new(trace, arguments.trace_dir, f"{stem}-whole")
    print(f"FAILED in case {index}; saved as {first}")
    try:
        print("replaying and shrinking ...", flush=True)  # from here on Ctrl-C is expected
        failure = examine(subject, trace, divergence)
    except KeyboardInterrupt:
        print(f"interrupted, so not shrunk:\n{divergence}")
        return
    beacon.go_home()
    path = save_new(failure.trace, arguments.trace_dir, stem)
    print("\n".join(failure.lines(path, arguments.step_timeout)), flush=True)
    surely = failure.fails == failure.replays and failure.divergence.oracle != "hang"
    if surely and not goes_wrong_alone(path, NEW_PROCESS):
        print(f"{'elsewhere':<12} {OUTSIDE}")


def _progress(summary: Summary, amount: Amount, seconds: float) -> None:
    goal = f" of {amount.steps:,}" if amount.steps is not None else ""
    print(
        f"{summary.steps:,}{goal} steps, {summary.cases:,} cases, {summary.requests:,} requests, "
        f"{summary.steps / seconds:,.0f} steps/s",
        file=sys.stderr,
        flush=True,
    )
