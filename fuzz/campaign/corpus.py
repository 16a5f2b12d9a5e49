"""The traces worth keeping, in a folder that is whole at any moment.

    coverage/NAME.jsonl   traces that together hit every point and transition seen so far
    failing/NAME.jsonl    one trace for each signature of failure, the smallest seen so far

There is no index: what the traces cover is found by running them. A file appears or is replaced by
a rename, so a kill at any moment leaves every file as it was or as it should be, and at most a
temporary one, which is removed when the folder is opened next time. A coverage trace is named by
its content and a failing one by its signature, so that two corpora merge by putting their files
together: a name in both is the same trace, or two failures alike of which the smaller one stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec

from draftproof.reference.config import checked
from draftproof.sim.errors import FileError
from draftproof.sim.files import check_writable, write_whole
from draftproof.sim.traces import Trace, encode, load

COVERAGE, FAILING = "coverage", "failing"


def name_of(trace: Trace) -> str:
    """By its content; of a failing one, by what fails where."""
    if trace.failure is None:
        trace = msgspec.structs.replace(trace, config=checked(trace.config))  # as it is loaded
        return blake2b(encode(trace), digest_size=8).hexdigest()
    oracle, field = trace.failure
    told = repr((trace.failure, trace.implementation, trace.options, trace.engine_defect))
    words = "".join(c if c.isalnum() else "-" for c in f"{oracle}-{field}")[:40]
    return f"{words}-{blake2b(told.encode(), digest_size=4).hexdigest()}"


def size_of(trace: Trace) -> tuple[int, bytes]:
    """The smaller one of two traces is the one with fewer events; then the bytes decide."""
    return len(trace.events), encode(trace)


class Corpus:
    """A folder of traces. One process writes; others may read."""

    def __init__(self, folder: Path) -> None:
        """Raises UsageError if nothing can be written there."""
        self.folder = folder
        for part in (COVERAGE, FAILING):
            check_writable(folder / part)
            for left in (folder / part).glob(".*.jsonl.*"):
                with suppress(OSError):
                    left.unlink()  # of a process that was killed

    def covering(self) -> list[Trace]:
        """In the order of their names. Raises FileError for a file that is no trace."""
        return list(_traces(self.folder / COVERAGE))

    def failing(self) -> list[Trace]:
        """In the order of their names. Raises FileError for a file that is no trace."""
        return list(_traces(self.folder / FAILING))

    def keep(self, trace: Trace) -> Path:
        """Keep a coverage trace."""
        path = self.folder / COVERAGE / f"{name_of(trace)}.jsonl"
        if not path.exists():
            write_whole(encode(trace), path)
        return path

    def keep_failing(self, trace: Trace, instead: Trace | None = None) -> Path:
        """Keep a failing trace unless a smaller one fails alike; that may be `instead`, though."""
        path = self.folder / FAILING / f"{name_of(trace)}.jsonl"
        there = load(path) if path.exists() else None
        if there is None or there == instead or size_of(trace) < size_of(there):
            write_whole(encode(trace), path)
        return path

    def drop(self, trace: Trace) -> None:
        """Forget a coverage trace."""
        with suppress(FileNotFoundError):
            (self.folder / COVERAGE / f"{name_of(trace)}.jsonl").unlink()

    def merge(self, other: Corpus) -> None:
        """Take over everything of another corpus."""
        for trace in other.covering():
            self.keep(trace)
        for trace in other.failing():
            self.keep_failing(trace)


def _traces(folder: Path) -> Iterator[Trace]:
    for path in sorted(folder.glob("*.jsonl")):
        trace = load(path)
        if path.stem != name_of(trace):
            raise FileError(
                f"{path}: its name does not go with its content; it should be "
                f"{name_of(trace)}.jsonl"
            )
        yield trace
