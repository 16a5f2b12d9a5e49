"""Drafts, none for a while, drafts again: and all that goes wrong in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from draftproof.reference.vocabulary import UNDONE, GenerationRow
from draftproof.sim.run import Expected

LEAST = 2
"""Steps without drafts that are a while."""

SERVER = 0
"""Stands for all requests together, since nobody lives on behind a failed step."""

CANCELLED, REUSED, FAILED, WARM_UP_FAILED = range(4)
"""What may happen meanwhile: a request leaves, a slot changes hands, a step fails, a warm-up."""

WANTED = {True: {CANCELLED, REUSED, FAILED}, False: {CANCELLED, REUSED, WARM_UP_FAILED}}
"""Of the server, and of one request, which only a failed warm-up leaves alive."""


@dataclass(slots=True)
class _Gap:
    zeros: int = 0
    seen: set[int] = field(default_factory=set)


class Sequences:
    """Everybody's gaps, by incarnation."""

    def __init__(self) -> None:
        self._drafted: set[int] = set()
        self._gaps: dict[int, _Gap] = {}

    def meanwhile(self, what: int) -> None:
        """Something happens to whoever is without drafts."""
        for gap in self._gaps.values():
            gap.seen.add(what)

    def ran(self, step: Expected) -> Iterator[str]:
        """The points of a step; what it did to slots is told behind it."""
        if step.batch.mode in UNDONE:
            if step.result is None:
                self.meanwhile(WARM_UP_FAILED)
            return
        real = [row for row in step.batch.generations if row.incarnation]
        if real and self._ends(SERVER, step):
            yield "sequence/of a server"
        for row in real:
            if self._ends(row.incarnation, step):
                yield from _of_a_request(row)
        if step.result is None:
            self.meanwhile(FAILED)

    def _ends(self, who: int, step: Expected) -> bool:
        """Whether a gap ends here in which everything happened."""
        if not step.batch.draft_len:
            if who in self._drafted:
                self._gaps.setdefault(who, _Gap()).zeros += 1
            return False
        if step.result is None:
            return False
        self._drafted.add(who)
        gap = self._gaps.pop(who, _Gap())
        return gap.zeros >= LEAST and gap.seen >= WANTED[who == SERVER]


def _of_a_request(row: GenerationRow) -> Iterator[str]:
    yield "sequence/of a request"
    if not row.greedy:
        yield "sequence/of a sampled request"
    if row.grammar:
        yield "sequence/of a guided request"
