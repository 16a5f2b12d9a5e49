"""What happens to a failing case: saved, replayed ten times, shrunk, saved again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from draftproof.fuzz.cases import Subject
from draftproof.fuzz.report import failure_report
from draftproof.fuzz.shrink import shrink
from draftproof.sim.divergence import Divergence
from draftproof.sim.traces import Trace, cut, encode, save

REPLAYS = 10


@dataclass(frozen=True, slots=True)
class Failure:
    """A failing trace, made minimal, and how often it fails."""

    trace: Trace
    divergence: Divergence
    fails: int
    events_before: int

    def lines(self, path: Path | None) -> list[str]:
        """The report."""
        lines = failure_report(self.divergence, self.trace, path)
        lines.append(f"{'fails':<12} {self.fails} of {REPLAYS} replays")
        if self.events_before != len(self.trace.events):
            lines.append(f"{'shrunk':<12} from {self.events_before} events")
        return lines


def examine(subject: Subject, trace: Trace, divergence: Divergence) -> Failure:
    """Replay a failing trace ten times, then shrink it if it fails every time."""
    trace = msgspec.structs.replace(trace, failure=divergence.signature)
    again = [subject.failure(trace) for _ in range(REPLAYS)]
    fails = sum(found is not None and _same(found, divergence) for found in again)
    if fails < REPLAYS:
        return Failure(trace, divergence, fails, len(trace.events))
    before = len(trace.events)
    if divergence.event is not None:
        head = cut(trace, trace.events[: divergence.event + 1])
        trace = head if _fails_alike(subject, head, divergence) else trace
    trace = shrink(trace, lambda candidate: _fails_alike(subject, candidate, divergence))
    smallest = subject.failure(trace)
    assert smallest is not None, "shrink returns a trace that fails"
    return Failure(trace, smallest, fails, before)


def _fails_alike(subject: Subject, trace: Trace, divergence: Divergence) -> bool:
    found = subject.failure(trace)
    return found is not None and _same(found, divergence)


def _same(a: Divergence, b: Divergence) -> bool:
    return a.signature == b.signature


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
