"""What happens to a failing case: saved, replayed ten times, shrunk, saved again.

A failure that comes and goes is shrunk too, with several tries for every smaller trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, log
from pathlib import Path
from time import monotonic

import msgspec

from draftproof.fuzz.cases import Subject
from draftproof.fuzz.report import STEP_TIMEOUT, failure_report
from draftproof.fuzz.shrink import shrink
from draftproof.reference.vocabulary import ConfigError
from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import ImplementationError
from draftproof.sim.traces import Trace, cut, encode, save

REPLAYS = 10
OVERLOOKED = 0.02
"""How likely a smaller trace that fails as often as the whole one may pass all its tries."""

PATIENCE = 300.0
"""Seconds after which replaying and shrinking stop; only hangs and very slow steps take so long."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failing trace, made minimal unless time ran out, and how often it fails.

    tries: how often each smaller trace was run while shrinking, until it failed.
    """

    trace: Trace
    divergence: Divergence
    fails: int
    replays: int
    events_before: int
    late: bool = False
    tries: int = 1

    def lines(self, path: Path | None, step_timeout: float = STEP_TIMEOUT) -> list[str]:
        """The report."""
        lines = failure_report(self.divergence, self.trace, path, step_timeout)
        lines.append(f"{'fails':<12} {self.fails} of {self.replays} replays")
        if self.events_before != len(self.trace.events):
            tries = f", with {self.tries} tries each" if self.tries > 1 else ""
            lines.append(f"{'shrunk':<12} from {self.events_before} events{tries}")
        elif self.tries > 1:
            lines.append(f"{'tries':<12} {self.tries} for each smaller trace")
        if self.late:
            lines.append(f"{'not minimal':<12} time for shrinking ran out")
        return lines


class _Alike:
    """Whether a trace fails in the same way, at least once in so many tries; never, once time is
    up. last: the last that did.
    """

    def __init__(self, subject: Subject, divergence: Divergence) -> None:
        self.subject = subject
        self.last = divergence
        self.deadline = inf
        self.late = False
        self.tries = 1

    def __call__(self, trace: Trace) -> bool:
        return any(self._once(trace) for _ in range(self.tries))

    def _once(self, trace: Trace) -> bool:
        if monotonic() > self.deadline:
            self.late = True
            return False
        try:
            found = self.subject.failure(trace)
        except (ConfigError, ImplementationError):  # no worker for this configuration
            return False
        if found is None or found.signature != self.last.signature:
            return False
        self.last = found
        return True


def examine(
    subject: Subject, trace: Trace, divergence: Divergence, patience: float = PATIENCE
) -> Failure:
    """Replay a failing trace ten times, then shrink it if it ever fails again."""
    trace = msgspec.structs.replace(trace, failure=divergence.signature)
    start, before = monotonic(), len(trace.events)
    alike = _Alike(subject, divergence)
    fails = replays = 0
    while replays < REPLAYS and (not replays or monotonic() < start + patience / 2):
        fails += alike(trace)
        replays += 1
    if not fails:
        return Failure(trace, divergence, fails, replays, before)
    if fails < replays:
        alike.tries = ceil(log(OVERLOOKED) / log(1 - fails / replays))
    alike.deadline = start + patience
    if divergence.event is not None:
        head = cut(trace, trace.events[: divergence.event + 1])
        trace = head if alike(head) else trace
    trace = shrink(trace, alike)
    return Failure(trace, alike.last, fails, replays, before, alike.late, alike.tries)


def save_new(trace: Trace, directory: Path, stem: str) -> Path:
    """Save a trace under a name that no other trace has; an equal one is left as it is."""
    number = 0
    while True:
        path = directory / (f"{stem}-{number}.jsonl" if number else f"{stem}.jsonl")
        if not path.exists():
            save(trace, path)
            return path
        if path.read_bytes() == encode(trace):
            return path
        number += 1
