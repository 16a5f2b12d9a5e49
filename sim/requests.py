"""A request as the serving engine keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field

from draftproof.reference.vocabulary import (
    NO_PENALTIES,
    Config,
    ContextRow,
    GenerationRow,
    Penalties,
)
from draftproof.sim.events import Submit
from draftproof.sim.grammars import GRAMMARS, end_token
from draftproof.sim.logits import PENALTIES
from draftproof.sim.target import seed


@dataclass(slots=True)
class Request:
    """One incarnation. `length` counts committed tokens, `computed` positions that were fed.

    While decoding, the anchor is the last committed token, at position length - 1 = computed.
    incarnation: one life of an id, by order of submission, from 1; stop: the token that ends it,
    with a grammar that of the grammar; told: how many tokens of its prompt the worker has been
    told, as far as it wants to know them.
    """

    ordinal: int
    incarnation: int
    request_id: int
    asked: Submit
    length: int
    computed: int
    decoding: bool
    stop: int | None
    told: int
    grammar: int = 0
    penalties: Penalties = NO_PENALTIES
    seq_slot: int | None = None
    output: list[int] = field(default_factory=list)
    drafts: list[int] = field(default_factory=list)
    pause: int = 0
    reserved: int = 0

    @classmethod
    def of(cls, event: Submit, request_id: int, config: Config) -> Request:
        """A request as submitted; an imported prompt has run, its last token is the anchor."""
        computed = event.prompt - 1 if event.imported else min(event.reused, event.prompt - 1)
        request = cls(
            event.request,
            event.request + 1,
            request_id,
            event,
            event.prompt,
            computed,
            event.imported,
            event.stop,
            event.prompt,
        )
        if config.target_logits:
            request.told = 0
            request.penalties = PENALTIES[event.penalties % len(PENALTIES)]
            request.grammar = event.grammar % (len(GRAMMARS) + 1)
            if request.grammar:
                request.stop = end_token(config.vocab_size)
        return request

    @property
    def room(self) -> int:
        """How many tokens it may still emit."""
        return self.asked.limit - len(self.output)

    def untold(self, end: int) -> int:
        """How many tokens of the prompt before position `end` the worker has not been told."""
        return max(0, min(end, self.asked.prompt) - self.told)

    def chunk(self, longest: int) -> ContextRow:
        """The next prompt chunk, at most so long."""
        length = min(self.length - self.computed, longest)
        end = self.computed + length
        return ContextRow(
            request_id=self.request_id,
            incarnation=self.incarnation,
            seq_slot=self._seq_slot(),
            first_position=self.computed,
            length=length,
            greedy=not self.asked.sampled,
            grammar=self.grammar,
            penalties=self.penalties,
            told=self.untold(end),
            last=end == self.length,
        )

    def generation(self, draft_len: int) -> GenerationRow:
        """The row of a decoding request."""
        return GenerationRow(
            request_id=self.request_id,
            incarnation=self.incarnation,
            seq_slot=self._seq_slot(),
            position=self.computed,
            proposed=min(len(self.drafts), draft_len),
            greedy=not self.asked.sampled,
            seed=seed(self.incarnation),
            grammar=self.grammar,
            penalties=self.penalties,
            told=self.untold(self.computed + 1),
        )

    def restart(self) -> None:
        """Everything is computed again: all its tokens are the prompt now."""
        self.computed = 0
        self.decoding = False
        self.drafts = []

    def _seq_slot(self) -> int:
        assert self.seq_slot is not None, "only an admitted request is scheduled"
        return self.seq_slot
