"""I20: the engine's statistics, recomputed from the journal alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

from draftproof.properties.broken import broken
from draftproof.reference.vocabulary import UNDONE, Batch
from draftproof.sim.journal import Answered, Delivered, Entry, Fed, Lost, Published
from draftproof.sim.statistics import Counts, Statistics

Kind = tuple[int, int, int, int]
"""One result: drafts of its own, those that had a row, tokens answered, tokens handed out. A prompt
that is through has one too, without drafts."""

COUNTED = tuple(field.name for field in fields(Counts))


class Counted:
    """All results that a journal tells of, by whom they were for.

    proposed: how many drafts the worker has made for each row answered last; what a prompt proposes
    are placeholders; batch, fed: the batch fed last, and per request in it its row, its own drafts,
    and those of them that had a logit row; waiting: the same of those answered whose result nobody
    was given yet; lens: tokens of each row answered last; wasted: drafts verified for nobody.
    """

    def __init__(self, positions: int) -> None:
        self.positions = positions
        self.proposed: dict[int, int] = {}
        self.batch: Batch | None = None
        self.fed: dict[int, tuple[int, int, int]] = {}
        self.undone = False
        self.waiting: dict[int, tuple[int, int, int]] = {}
        self.lens: Sequence[int] = ()
        self.given: dict[int, dict[Kind, int]] = {}
        self.wasted = 0

    def see(self, entry: Entry) -> None:
        """Take in one entry. Raises Divergence if published statistics are not what they are."""
        if isinstance(entry, Delivered):  # the most frequent one comes first
            b, drafted, verified = self.waiting.pop(entry.incarnation)
            kinds = self.given.setdefault(entry.incarnation, {})
            kind = drafted, verified, self.lens[b], len(entry.tokens)
            kinds[kind] = kinds.get(kind, 0) + 1
        elif isinstance(entry, Fed):
            self.undone = entry.batch.mode in UNDONE
            self.batch, self.fed = entry.batch, self._fed(entry.batch)
        elif isinstance(entry, Answered) and not self.undone:
            self._answered(entry)
        elif isinstance(entry, Lost):
            self._withheld()
        elif isinstance(entry, Published):
            self._withheld()
            i20_statistics(self.statistics, entry.statistics)

    @property
    def statistics(self) -> Statistics:
        """What an engine has to publish by now."""
        requests = {own: tally(kinds, self.positions) for own, kinds in self.given.items()}
        everything: dict[Kind, int] = {}
        for kinds in self.given.values():
            for kind, times in kinds.items():
                everything[kind] = everything.get(kind, 0) + times
        return Statistics(tally(everything, self.positions), requests, self.wasted)

    def _answered(self, entry: Answered) -> None:
        """Whoever was not given the last result by now never will be."""
        batch, result = self.batch, entry.result
        assert batch is not None
        self._withheld()
        self.proposed = {}
        if result is None:
            return
        self.waiting, self.lens = self.fed, result.new_tokens_lens
        drafts = result.next_draft_tokens[len(batch.contexts) :]
        for row, made in zip(batch.generations, drafts, strict=True):
            self.proposed[row.incarnation] = len(made)

    def _withheld(self) -> None:
        self.wasted += sum(verified for _, _, verified in self.waiting.values())
        self.waiting = {}

    def _fed(self, batch: Batch) -> dict[int, tuple[int, int, int]]:
        """Of each request in a batch."""
        first, r = len(batch.contexts), batch.draft_len
        fed = {row.incarnation: (b, 0, 0) for b, row in enumerate(batch.contexts)}
        windows = batch.verify_lens or (1 + r,) * len(batch.generations)
        for b, (row, window) in enumerate(zip(batch.generations, windows, strict=True), first):
            if row.incarnation:
                drafted = min(self.proposed.get(row.incarnation, 0), r)
                fed[row.incarnation] = b, drafted, min(drafted, window - 1)
        return fed


def tally(kinds: Mapping[Kind, int], positions: int) -> Counts:
    """The sums over results, of each kind so many."""

    def reaching(numbers: Sequence[int]) -> list[int]:
        pairs = list(zip(numbers, times, strict=True))
        return [sum(n for number, n in pairs if number > k) for k in range(positions)]

    def total(numbers: Sequence[int]) -> int:
        return sum(number * n for number, n in zip(numbers, times, strict=True))

    times = list(kinds.values())
    columns = zip(*kinds, strict=True) if kinds else ((),) * 4
    drafted, verified, tokens, emitted = columns
    kept = [min(n - 1, v) for n, v in zip(tokens, verified, strict=True)]
    return Counts(
        drafted=reaching(drafted),
        verified=reaching(verified),
        accepted=reaching(kept),
        guessed=total(tokens) - sum(times) - total(kept),
        results=sum(times),
        emitted=total(emitted),
        dropped=total(tokens) - total(emitted),
    )


def i20_statistics(wanted: Statistics, found: Statistics) -> None:
    """They add up, and they are those of the journal, request by request."""
    for whose, counts in (("all", found.total), *found.requests.items()):
        came = sum(counts.accepted) + counts.guessed + counts.results
        if counts.emitted + counts.dropped != came:
            told = f"emitted + dropped = {came}"
            broken("I20", told, counts.emitted + counts.dropped, incarnation=_number(whose))
    if found.requests.keys() != wanted.requests.keys():
        broken("I20", f"statistics of {sorted(wanted.requests)}", sorted(found.requests))
    for incarnation, counts in found.requests.items():
        i20_counts(wanted.requests[incarnation], counts, incarnation)
    i20_counts(wanted.total, found.total, None)
    if found.wasted != wanted.wasted:
        broken("I20", f"{wanted.wasted} drafts verified for nobody", found.wasted)


def i20_counts(wanted: Counts, found: Counts, incarnation: int | None) -> None:
    """The same numbers, each by its name."""
    for name in COUNTED if found != wanted else ():
        told, value = getattr(wanted, name), getattr(found, name)
        if value != told:
            broken("I20", f"{name}: {told}", value, incarnation=incarnation)


def _number(whose: object) -> int | None:
    return whose if isinstance(whose, int) else None
