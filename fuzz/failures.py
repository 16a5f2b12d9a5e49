"""What happens to a failing case: saved, replayed ten times, shrunk, saved again."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import monotonic

import msgspec

from draftproof.fuzz.cases import Subject
from draftproof.fuzz.report import failure_report
from draftproof.fuzz.shrink import shrink
from draftproof.reference.vocabulary import ConfigError
from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import ImplementationError
from draftproof.sim.traces import Trace, cut, encode, save

REPLAYS = 10
PATIENCE = 300.0
"""Seconds after which replaying and shrinking stop; only hangs and very slow steps take so long."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failing trace, made minimal unless time ran out, and how often it fails."""

    trace: Trace
    divergence: Divergence
    fails: int
    replays: int
    events_before: int
    late: bool = False

    def lines(self, path: Path | None) -> list[str]:
        """The report."""
        lines = failure_report(self.divergence, self.trace, path)
        lines.append(f"{'fails':<12} {self.fails} of {self.replays} replays")
        if self.events_before != len(self.trace.events):
            lines.append(f"{'shrunk':<12} from {self.events_before} events")
        if self.late:
            lines.append(f"{'not minimal':<12} time for shrinking ran out")
        return lines


class _Alike:
    """Whether a trace fails in the same way; never, once time is up. last: the last that did."""

    def __init__(self, subject: Subject, divergence: Divergence) -> None:
        self.subject = subject
        self.last = divergence
        self.deadline = inf
        self.late = False

    def __call__(self, trace: Trace) -> bool:
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
    """Replay a failing trace ten times, then shrink it if it fails every time."""
    trace = msgspec.structs.replace(trace, failure=divergence.signature)
    start, before = monotonic(), len(trace.events)
    alike = _Alike(subject, divergence)
    fails = replays = 0
    while replays < REPLAYS and (not replays or monotonic() < start + patience / 2):
        fails += alike(trace)
        replays += 1
    if fails < replays:
        return Failure(trace, divergence, fails, replays, before)
    alike.deadline = start + patience
    if divergence.event is not None:
        head = cut(trace, trace.events[: divergence.event + 1])
        trace = head if alike(head) else trace
    trace = shrink(trace, alike)
    return Failure(trace, alike.last, fails, replays, before, alike.late)


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
