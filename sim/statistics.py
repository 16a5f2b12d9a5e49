"""What was drafted and what became of it, as a serving engine publishes it (I20)."""

from __future__ import annotations

from dataclasses import dataclass, field

from draftproof.reference.vocabulary import Batch


@dataclass(slots=True)
class Counts:
    """Of one request, or of all of them; counted when a result is delivered.

    Per draft position 0 ... K-1: drafted: drafts of its own that a block brought, placeholders
    are none; verified: those within the verify window; accepted: those kept, behind an end too.
    Of all positions: guessed: placeholders that the target happened to confirm; results: how many
    were delivered; emitted: tokens handed out; dropped: tokens behind a stop or the limit. So

        emitted + dropped = accepted + guessed + results
    """

    drafted: list[int]
    verified: list[int]
    accepted: list[int]
    guessed: int = 0
    results: int = 0
    emitted: int = 0
    dropped: int = 0

    @classmethod
    def none(cls, positions: int) -> Counts:
        """Nothing counted yet, for blocks of so many drafts."""
        return cls([0] * positions, [0] * positions, [0] * positions)

    def add(self, drafted: int, verified: int, tokens: int, emitted: int, times: int) -> None:
        """So many results of so many tokens were delivered, of which so many were handed out."""
        accepted = min(tokens - 1, verified)
        for counts, drafts in (
            (self.drafted, drafted),
            (self.verified, verified),
            (self.accepted, accepted),
        ):
            for position in range(drafts):
                counts[position] += times
        self.guessed += times * (tokens - 1 - accepted)
        self.results += times
        self.emitted += times * emitted
        self.dropped += times * (tokens - emitted)

    def include(self, others: Counts) -> None:
        """Add those of other requests, whose blocks may be of another length."""
        for mine, theirs in (
            (self.drafted, others.drafted),
            (self.verified, others.verified),
            (self.accepted, others.accepted),
        ):
            mine += [0] * (len(theirs) - len(mine))
            for position, count in enumerate(theirs):
                mine[position] += count
        self.guessed += others.guessed
        self.results += others.results
        self.emitted += others.emitted
        self.dropped += others.dropped

    def rates(self) -> list[float | None]:
        """Per position, which part of the drafts verified there was accepted; None: none was."""
        pairs = zip(self.accepted, self.verified, strict=True)
        return [accepted / verified if verified else None for accepted, verified in pairs]

    def acceptance_length(self) -> float | None:
        """Tokens of a block that verifies a draft of its own, on average, the bonus included."""
        blocks = sum(self.verified[:1])
        return 1 + sum(self.accepted) / blocks if blocks else None


@dataclass(slots=True)
class Statistics:
    """Of an engine; requests: by incarnation, of those that were ever given something.

    wasted: drafts verified in results that reached nobody; they are counted nowhere else.
    """

    total: Counts
    requests: dict[int, Counts] = field(default_factory=dict)
    wasted: int = 0


class Tally:
    """Counts results as they are delivered.

    kinds: per incarnation how many were alike: drafts of its own, those that had a logit row,
    tokens, those handed out. Sums are made when they are published, since steps come often.
    wasted: as in `Statistics`. prompted: who had a prompt in the batch answered last: what a prompt
    proposes are placeholders; undrafted: the same of the batch before it; they brought no drafts of
    their own to this one.
    """

    def __init__(self, positions: int) -> None:
        self.positions = positions
        self.kinds: dict[int, dict[tuple[int, int, int, int], int]] = {}
        self.wasted = 0
        self.prompted: set[int] = set()
        self.undrafted: set[int] = set()

    def answered(self, batch: Batch) -> None:
        """Results of this batch are there, to be delivered or withheld from now on."""
        self.undrafted = self.prompted
        self.prompted = {row.incarnation for row in batch.contexts}

    def delivered(self, incarnation: int, own: tuple[int, int], tokens: int, emitted: int) -> None:
        """A request was given `emitted` of `tokens`; own: its drafts, and how many had a row."""
        kinds = self.kinds.setdefault(incarnation, {})
        kind = (*own, tokens, emitted)
        kinds[kind] = kinds.get(kind, 0) + 1

    def published(self) -> Statistics:
        """The sums."""
        total, requests = Counts.none(self.positions), {}
        for incarnation, kinds in self.kinds.items():
            requests[incarnation] = Counts.none(self.positions)
            for kind, times in kinds.items():
                requests[incarnation].add(*kind, times)
            total.include(requests[incarnation])
        return Statistics(total, requests, self.wasted)

    def own_drafts(self, batch: Batch, b: int) -> tuple[int, int]:
        """How many drafts of its own row b brought, and how many of them have a logit row."""
        g = b - len(batch.contexts)
        if g < 0 or batch.rows[b].incarnation in self.undrafted:
            return 0, 0
        drafted, window = batch.generations[g].proposed, batch.draft_len
        if batch.verify_lens is not None:
            window = batch.verify_lens[g] - 1
        return drafted, min(drafted, window)
