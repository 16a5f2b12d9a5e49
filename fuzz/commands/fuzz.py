"""`draftproof fuzz`: long campaigns, on many cores or machines."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Collection, Iterator, Sequence
from itertools import count
from time import monotonic
from types import FrameType

from draftproof.fuzz.campaign.chunks import CASES, LIVENESS, Result, Task
from draftproof.fuzz.campaign.corpus import Corpus
from draftproof.fuzz.campaign.minimal import distil, minimised
from draftproof.fuzz.campaign.on_ray import RayPool
from draftproof.fuzz.campaign.pool import DEATH, HANG, Pool
from draftproof.fuzz.campaign.total import Total
from draftproof.fuzz.coverage.catalogue import CATALOGUE
from draftproof.fuzz.coverage.matrix import CELLS, page
from draftproof.fuzz.report import replay_line
from draftproof.sim.errors import (
    MISSED,
    DraftproofError,
    ImplementationError,
    NoVerdict,
    UsageError,
)
from draftproof.sim.files import check_all_writable, write_whole
from draftproof.sim.traces import Trace, decode, encode, load

NEVER_DONE = 7
GOALS: dict[str, Collection[str]] = {"points": CATALOGUE, "matrix": CELLS, "none": ()}
LEAST_STEPS = 1_000
"""Steps below which `--minutes` alone gives no verdict."""
MOST_REFUSED = 6 * CASES
"""Configurations that a factory may refuse before it has accepted one."""


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0, 1 or 7 (failures, saved), 2, 4, 5 (no verdict) or 6 (a point never hit)."""
    if arguments.minutes is None and arguments.cases is None:
        raise UsageError("say how long: --minutes M or --cases N")
    check_all_writable([arguments.report, arguments.matrix])
    return _Campaign(arguments).run()


class _Campaign:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.start = self.told = monotonic()
        self.corpus = Corpus(arguments.corpus)
        self.corpus.failing()  # what cannot be read is told now, not when a failure is to be kept
        self.total = Total(self.corpus)
        self.interrupted = False
        self.pool = _pool(arguments)

    def run(self) -> int:
        """The exit code; of a campaign that ends before its time, that of the failures so far."""
        try:
            return self._run()
        except (KeyboardInterrupt, DraftproofError) as error:
            if not self.total.failing:
                raise
            if isinstance(error, DraftproofError):
                print(f"draftproof: {error}", file=sys.stderr)
            return self._failed()

    def _run(self) -> int:
        """Cases, then failures made small, then the corpus, then the verdict."""
        arguments = self.arguments
        print(
            f"fuzzing {arguments.implementation} on {arguments.device}, driver {arguments.driver}, "
            f"seed {arguments.seed}, {arguments.workers} workers",
            flush=True,
        )
        before = signal.signal(signal.SIGINT, self._stop)
        try:
            with self.pool as pool:
                for message in pool.run(self._tasks()):
                    self.total.take(message)
                    self._check_refused(MOST_REFUSED)
                    self._progress()
                failures = self._examined()
        finally:
            signal.signal(signal.SIGINT, before)
        self._distil()
        return self._verdict(failures)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-C: what is under way ends, and nothing new begins; the second one is as usual."""
        self.interrupted = True
        signal.signal(signal.SIGINT, signal.default_int_handler)  # before anybody hears of it
        print("interrupted: ending what is under way ...", file=sys.stderr, flush=True)

    def _late(self) -> bool:
        minutes = self.arguments.minutes
        over = minutes is not None and monotonic() - self.start >= 60 * minutes
        return self.interrupted or over

    def _task(
        self, number: int, traces: tuple[bytes, ...] = (), shrink: bool = False, first: int = 0
    ) -> Task:
        arguments = self.arguments
        return Task(
            number=number,
            implementation=arguments.implementation,
            first=first,
            options=tuple(sorted(arguments.option.items())),
            device=arguments.device,
            driver=arguments.driver,
            seed=arguments.seed,
            step_timeout=arguments.step_timeout,
            traces=traces,
            shrink=shrink,
        )

    def _tasks(self) -> Iterator[Task]:
        """The corpus first, then new cases; chunks are numbered through."""
        known = [encode(trace) for trace in self.corpus.covering()]
        chunks = [tuple(known[i : i + CASES]) for i in range(0, len(known), CASES)]
        for number, traces in enumerate(chunks):
            if self._late():
                return
            yield self._task(number, traces)
        cases = self.arguments.cases
        most = None if cases is None else -(-cases // CASES)
        for index in count():
            if self._late() or index == most:
                return
            yield self._task(len(chunks) + index, first=index * CASES)

    def _check_refused(self, least: int) -> None:
        """Raises ImplementationError if so many configurations were refused, and none accepted."""
        refused = self.total.refused
        if not self.total.coverage.cases and sum(refused.values()) >= least:
            raise ImplementationError(
                f"the factory refused each of {sum(refused.values())} configurations, "
                f"for example with: {next(iter(refused))}"
            )

    def _progress(self) -> None:
        now, coverage = monotonic(), self.total.coverage
        if now - self.told < 2:
            return
        self.told = now
        print(
            f"{coverage.steps:,} steps, {coverage.cases:,} cases, {len(coverage.hits)} points, "
            f"{len(coverage.transitions):,} transitions, {len(self.total.failing)} failures, "
            f"{coverage.steps / (now - self.start):,.0f} steps/s",
            file=sys.stderr,
            flush=True,
        )

    def _examined(self) -> list[list[str]]:
        """A report of each failure, which is made minimal unless there was a Ctrl-C before."""
        traces = [trace for _, trace in sorted(self.total.failing.items())]
        reports = [self._told(trace) for trace in traces]
        for message in self.pool.run(self._shrinking(traces)):
            if isinstance(message, Result):
                lines = message.lines
                for data in message.failing:
                    small = decode(data, "a shrunk trace")
                    lines += self._keep(small, traces[message.number])
                reports[message.number] = [*lines, *reports[message.number][1:]]
        return reports

    def _shrinking(self, traces: Sequence[Trace]) -> Iterator[Task]:
        for number, trace in enumerate(traces):
            if self.interrupted:
                return
            if trace.failure not in (DEATH, HANG):
                yield self._task(number, (encode(trace),), shrink=True)

    def _keep(self, small: Trace, whole: Trace) -> list[str]:
        """The shrunk trace takes the place of the whole one, but not of a smaller one."""
        there = load(self.corpus.keep_failing(small, instead=whole))
        if there == small:
            return []
        return [f"{'kept':<12} the trace of an earlier campaign ({len(there.events)} events)"]

    def _told(self, trace: Trace) -> list[str]:
        assert trace.failure is not None
        path = self.corpus.keep_failing(trace)
        oracle, field = trace.failure
        again = replay_line(path, oracle, self.arguments.step_timeout)
        return [f"{'found by':<12} {oracle}: {field}", again]

    def _distil(self) -> None:
        """Only traces stay that together cover everything. The new ones are kept first."""
        if self.interrupted:
            return
        traces = self.corpus.covering()
        kept = distil(traces)
        if self.arguments.minimal:
            kept = distil(minimised(kept))
        for trace in kept:
            self.corpus.keep(trace)
        for trace in traces:
            if trace not in kept:
                self.corpus.drop(trace)

    def _verdict(self, failures: list[list[str]]) -> int:
        total, arguments = self.total, self.arguments
        if not failures and not self.interrupted:
            self._check_refused(1)
        print("\n".join(total.lines()))
        if arguments.report is not None:
            record = json.dumps(total.coverage.record(), indent=1) + "\n"
            write_whole(record.encode(), arguments.report)
        if arguments.matrix is not None:
            coverage = total.coverage
            named = arguments.implementation
            text = page(coverage.hits, coverage.cases, coverage.steps, named)
            write_whole(text.encode(), arguments.matrix)
        if self.pool.replaced:
            print(f"workers          {self.pool.replaced} replaced")
        for report in failures:
            print("\n" + "\n".join(report))
        if failures:
            return self._failed()
        if self.interrupted:
            raise NoVerdict("interrupted, no verdict; everything found is kept")
        if arguments.cases is None and total.coverage.steps < LEAST_STEPS:
            raise NoVerdict(
                f"no verdict: time ran out after {total.coverage.steps:,} steps; "
                "give more --minutes"
            )
        missing = total.coverage.missing(GOALS[arguments.goal])
        if missing:
            print(f"a coverage goal was missed: {len(missing)} points were never hit,")
            print(f"the first of them is {missing[0]}: {CATALOGUE[missing[0]]}")
            print("(where not all can be hit, in a short campaign or by an implementation that")
            print("refuses what they need, ask for none of them: --goal none)")
            return MISSED
        seconds = monotonic() - self.start
        print(f"no difference found in {seconds:.1f} s")
        return 0

    def _failed(self) -> int:
        failing = self.total.failing.values()
        print(f"\n{len(failing)} failures in {self.arguments.corpus}/failing")
        return _exit_code([trace.failure for trace in failing])


def _exit_code(failures: Sequence[tuple[str, str] | None]) -> int:
    """4 if its processes died and that is all, 7 if requests never end and that is all, else 1."""
    if set(failures) == {DEATH}:
        return ImplementationError.exit_code
    return NEVER_DONE if {failure[0] for failure in failures if failure} == {LIVENESS} else 1


def _pool(arguments: argparse.Namespace) -> Pool | RayPool:
    if arguments.on == "local":
        return Pool(arguments.workers, arguments.memory)
    return RayPool(arguments.workers)
