"""What a campaign adds up to. Chunks are counted in their order, whoever was done first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from draftproof.fuzz.campaign.chunks import Result
from draftproof.fuzz.campaign.corpus import Corpus, name_of, size_of
from draftproof.fuzz.campaign.minimal import Element, head_that_covers
from draftproof.fuzz.campaign.pool import Failed
from draftproof.fuzz.coverage.tally import Coverage
from draftproof.fuzz.refused import refusals
from draftproof.sim.traces import Trace, decode


@dataclass(slots=True)
class Total:
    """A campaign so far.

    corpus: where traces are kept, None for nowhere; failing: by signature and subject, whatever the
    order in which they came; known: points and transitions that somebody had already.
    """

    corpus: Corpus | None = None
    coverage: Coverage = field(default_factory=Coverage)
    failing: dict[str, Trace] = field(default_factory=dict)
    failed_cases: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    not_checked: set[str] = field(default_factory=set)
    chunks: int = 0
    known: set[Element] = field(default_factory=set)
    _early: dict[int, Result] = field(default_factory=dict)

    def take(self, message: Result | Failed) -> None:
        """What a worker process said."""
        if isinstance(message, Failed):
            self.failure(decode(message.trace, "a failing trace"))
            return
        self._early[message.number] = message
        while (result := self._early.pop(self.chunks, None)) is not None:
            self._add(result)

    def failure(self, trace: Trace) -> None:
        """Of traces that fail alike the smallest is kept."""
        if self.corpus is not None:
            self.corpus.keep_failing(trace)  # first, as a Ctrl-C may come between
        name = name_of(trace)
        there = self.failing.get(name)
        if there is None or size_of(trace) < size_of(there):
            self.failing[name] = trace

    def _add(self, result: Result) -> None:
        self.chunks += 1
        self.coverage.extend(result.coverage)
        self.refused.update(result.refused)
        self.not_checked |= result.not_checked
        self.failed_cases += len(result.failing)
        for data, cover in result.interesting:
            new = cover - self.known
            self.known |= new
            if new and self.corpus is not None:
                self.corpus.keep(head_that_covers(decode(data, "a trace"), new))

    def lines(self) -> list[str]:
        """For people."""
        coverage = self.coverage
        unchecked = ", ".join(sorted(self.not_checked)) or "nothing"
        lines = [
            f"cases            {coverage.cases:,} passed, {self.failed_cases:,} failed, "
            f"{coverage.steps:,} steps",
            *coverage.lines(),
            f"not checked      {unchecked}",
        ]
        lines += refusals(self.refused)
        return lines
