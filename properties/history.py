"""What the journal says about each incarnation, folded step by step.

Only facts of the journal go in; neither the engine nor the model is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate

from draftproof.reference.vocabulary import (
    UNDONE,
    Batch,
    Config,
    ContextRow,
    Frames,
    GenerationRow,
    StepResult,
)
from draftproof.sim.journal import Submitted


@dataclass(slots=True)
class Life:
    """One incarnation of a request, as the journal tells it.

    length: committed tokens, prompt included; next_position: where its next row must start.
    resident: it was in the last batch, so the worker still knows it; admitted: the last batch that
    it was in gave it a slot; stages: per stage the rows its window must show, oldest first;
    last_frame: the newest of them. drafts: what was proposed for it in the last batch; seq_slot:
    where their probabilities are. over: why it departed; lost: a step failed while it was there.
    grammar, penalties: as asked for; told: how many tokens of its prompt the worker was told; seen:
    which ones. dropped: tokens that the worker has committed, but nobody was given.
    """

    request_id: int
    incarnation: int
    prompt: int
    limit: int
    stop: int | None
    sampled: bool
    length: int
    next_position: int
    output: list[int] = field(default_factory=list)
    resident: bool = False
    admitted: bool = False
    stages: list[Frames] = field(default_factory=list)
    last_frame: int = 0
    drafts: list[int] = field(default_factory=list)
    seq_slot: int | None = None
    grammar: int = 0
    penalties: int = 0
    told: int = 0
    seen: set[int] = field(default_factory=set)
    over: str | None = None
    lost: bool = False
    dropped: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, entry: Submitted) -> Life:
        """A life at its beginning; all of an imported prompt but the anchor has run elsewhere."""
        asked = entry.event
        return cls(
            request_id=entry.request_id,
            incarnation=entry.incarnation,
            prompt=asked.prompt,
            limit=asked.limit,
            stop=asked.stop,
            sampled=asked.sampled,
            length=asked.prompt,
            next_position=min(asked.prompt if asked.imported else asked.reused, asked.prompt - 1),
            grammar=asked.grammar,
            penalties=asked.penalties,
        )

    @property
    def committed(self) -> list[int]:
        """Its output as the worker knows it: without the last step, if that is undelivered."""
        return [*self.output, *self.dropped]

    @property
    def ended(self) -> bool:
        """Its output has reached the limit or the stop token."""
        return len(self.output) >= self.limit or self.output[-1:] == [self.stop]

    def fed(
        self, config: Config, rows: list[Frames], first: int, count: int, end: int, fresh: bool
    ) -> None:
        """So many rows, given for each stage, were fed and are committed, up to position end - 1.

        first: the first of them; the rows of other requests stand around them.
        """
        self.admitted = fresh
        kept = [Frames()] * config.num_stages if fresh else self.stages
        self.stages = [
            before.then(more, first, count, config.window_size)
            for before, more in zip(kept, rows, strict=True)
        ]
        self.last_frame = self.next_position = end

    def restarted(self) -> None:
        """Everything will be computed again, with all its tokens as prompt."""
        self.next_position, self.drafts = 0, []


def tagged(row: ContextRow | GenerationRow, width: int, step: int) -> bytes:
    """The hidden rows of one row of a batch, as semantics, section 8a, describes them.

    Told anew, since `draftproof.sim.packing`, which makes those of a batch, is on trial.
    """
    first = row.first_position if isinstance(row, ContextRow) else row.position
    own, rest = two(row.incarnation), two(step) + b"\0"
    start = first % (128 * 128)
    positions = DIGITS[start : start + width]
    return own + (rest + own).join(positions) + rest if positions else b""


DIGITS = [bytes((low, high)) for high in range(128) for low in range(128)] * 2


def two(number: int) -> bytes:
    """A number as two base-128 digits, low digit first."""
    return DIGITS[number % (128 * 128)]


RealRow = tuple[int, ContextRow | GenerationRow, Life]
"""A row of a submitted request: its index in the batch, itself, and whose it is."""


@dataclass(slots=True)
class History:
    """All lives, and the batch that is being looked at.

    real: rows of requests in that batch; widths: token rows of each row, dummies included; hidden:
    those token rows, per row of the batch, as they must have been packed.
    holders: whose each request id is now, by incarnation.
    undelivered: per incarnation in the last answered batch its step, and the tokens it may be
    given, none for a chunk that does not end its prompt. prepared: the worker knows the batch.
    late: a batch is built before the results of the last one are delivered; flying: it was fed, and
    has not been answered yet.
    """

    config: Config
    lives: dict[int, Life] = field(default_factory=dict)
    holders: dict[int, int] = field(default_factory=dict)
    batch: Batch | None = None
    result: StepResult | None = None
    real: list[RealRow] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    hidden: list[bytes] = field(default_factory=list)
    undelivered: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    resident: list[Life] = field(default_factory=list)
    prepared: bool = True
    late: bool = False
    flying: bool = False

    def feeding(self, batch: Batch) -> None:
        """A batch is about to be run."""
        self.batch, self.result = batch, None
        self.flying = batch.mode not in UNDONE
        self.real = [
            (b, row, self.lives[row.incarnation])
            for b, row in enumerate(batch.rows)
            if row.incarnation in self.lives
        ]
        generations = batch.verify_lens or [1 + batch.draft_len] * len(batch.generations)
        self.widths = [row.length for row in batch.contexts] + list(generations)
        self.hidden = [
            tagged(row, width, batch.step)
            for row, width in zip(batch.rows, self.widths, strict=False)
        ]

    def withheld(self) -> None:
        """Whatever has not been delivered of the last step never will be."""
        for incarnation, (_, tokens) in self.undelivered.items():
            self.lives[incarnation].dropped += tokens
        self.undelivered.clear()

    def ahead(self, life: Life) -> int:
        """How many tokens the worker has committed that the request was not given yet."""
        return len(self.undelivered.get(life.incarnation, (0, []))[1])

    def reach(self, life: Life) -> int:
        """Target KV rows that a batch in flight may write for a request."""
        if not self.flying:
            return 0
        return max((self.furthest(row) for _, row, own in self.real if own is life), default=0)

    def furthest(self, row: ContextRow | GenerationRow) -> int:
        """Target KV rows that a row of the current batch may write."""
        if isinstance(row, ContextRow):
            return row.first_position + row.length
        assert self.batch is not None
        return row.position + 1 + self.batch.draft_len

    def failed(self) -> None:
        """The worker failed: nothing of this batch will be delivered, everybody admitted fails."""
        for _, _, life in self.real:
            life.lost = True
        for life in self.lives.values():
            life.lost = life.lost or bool(life.stages)
        self._present([])

    def answered(self) -> None:
        """Take in what the worker made of the current batch."""
        batch, result = self.batch, self.result
        assert batch is not None and result is not None
        hidden = Frames(b"".join(self.hidden))
        stages = [hidden.at_stage(stage) for stage in range(self.config.num_stages)]
        firsts = list(accumulate(self.widths, initial=0))
        for b, row, life in self.real:
            n = result.new_tokens_lens[b]
            tokens, fresh = result.new_tokens[b][:n], not life.resident
            if isinstance(row, ContextRow):
                end, kept = row.first_position + row.length, row.length
                fresh = fresh or row.first_position == 0
                if end < life.length:
                    tokens = []
            else:
                end, kept = row.position + n, n
            life.fed(self.config, stages, firsts[b], kept, end, fresh)
            life.drafts = list(result.next_draft_tokens[b]) if tokens else []
            life.seq_slot = row.seq_slot
            self.undelivered[life.incarnation] = (batch.step, tokens)
        self._present([life for _, _, life in self.real])

    def _present(self, lives: list[Life]) -> None:
        """The worker has forgotten everybody else; so has the engine, their drafts."""
        before, self.resident = self.resident, lives
        for life in before:
            life.resident = False
        for life in lives:
            life.resident = True
        for life in before:
            if not life.resident:
                life.drafts = []
