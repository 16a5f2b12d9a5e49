"""What a worker that chooses the target's tokens itself keeps per sequence slot (section 19)."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from draftproof.reference.vocabulary import (
    Batch,
    Config,
    ContextRow,
    GenerationRow,
    Guide,
    Matcher,
    Penalties,
)

Row = ContextRow | GenerationRow
Draw = Callable[[int, int], int]


@dataclass(slots=True)
class Kept:
    """One incarnation's own: its place in its grammar, and the tokens it has seen."""

    incarnation: int
    matcher: Matcher | None
    counts: list[int]
    prompt: set[int] = field(default_factory=set)


def penalised(
    logits: Sequence[float], counts: Sequence[int], prompt: set[int], penalties: Penalties
) -> list[float]:
    """Logits of one row under penalties; counts: of each token in the output, [V]."""
    scores = list(logits)
    for token, count in enumerate(counts):
        if count or token in prompt:
            positive = scores[token] > 0
            scores[token] *= 1 / penalties.repetition if positive else penalties.repetition
        scores[token] -= penalties.frequency * count + penalties.presence * (count > 0)
    return scores


def best(scores: Sequence[float], allowed: Sequence[int]) -> int:
    """The first of the highest scores that are allowed."""
    return max((t for t, legal in enumerate(allowed) if legal), key=scores.__getitem__)


class Sequences:
    """All sequence slots. Idle and padding rows have none: nothing is known of them.

    A warm-up calls `target_tokens` alone, which leaves everything as it was.
    """

    def __init__(self, config: Config, guide: Guide | None) -> None:
        self.vocab = config.vocab_size
        self.guide = guide
        self.slots: list[Kept | None] = [None] * config.max_num_requests
        self.specified: list[int] = []  # slots of the last batch, unless it failed

    def admit(self, batch: Batch) -> None:
        """In `prepare`: a slot starts anew for a new incarnation, and learns of its prompt."""
        assert batch.prompt_tokens is not None
        told, self.specified = 0, []
        for row in batch.rows:
            new = batch.prompt_tokens[told : told + row.told]
            told += row.told
            if row.seq_slot == len(self.slots):
                continue
            kept = self.slots[row.seq_slot]
            if kept is None or kept.incarnation != row.incarnation:
                matcher = self._matcher(row.grammar)
                kept = Kept(row.incarnation, matcher, [0] * self.vocab)
                self.slots[row.seq_slot] = kept
            kept.prompt.update(new)

    def target_tokens(
        self, row: Row, logits: Sequence[Sequence[float]], drafts: Sequence[int]
    ) -> list[int]:
        """The target's token per logit row; each draft is seen by the rows behind it alone.

        Behind a draft that the grammar does not allow, everything is allowed: none of it is ever
        accepted.
        """
        kept = self._of(row)
        counts = list(kept.counts) if kept else [0] * self.vocab
        prompt = kept.prompt if kept else set()
        matcher = kept.matcher if kept else None
        tokens, advanced = [], 0
        for i, scores in enumerate(logits):
            if i:
                counts[drafts[i - 1]] += 1
                if matcher and advanced == i - 1:
                    advanced += matcher.advance(drafts[i - 1])
            guided = matcher is not None and advanced == i
            allowed = matcher.allowed() if matcher and guided else bytes([1]) * self.vocab
            tokens.append(best(penalised(scores, counts, prompt, row.penalties), allowed))
        if matcher:
            matcher.rollback(advanced)
        return tokens

    def commit(self, batch: Batch, new_tokens: Sequence[Sequence[int]]) -> None:
        """Each new token is counted once; that of a chunk which is not the last is none."""
        for row, tokens in zip(batch.rows, new_tokens, strict=True):
            kept = self._of(row)
            if kept is None or (isinstance(row, ContextRow) and not row.last):
                continue
            for token in tokens:
                kept.counts[token] += 1
                if kept.matcher:
                    kept.matcher.advance(token)

    @contextmanager
    def drafting(self, row: Row) -> Iterator[Draw | None]:
        """What `draft_block` draws under the row's grammar; what was drafted is taken back."""
        kept = self._of(row)
        matcher = kept.matcher if kept else None
        if matcher is None:
            yield None
            return
        before = matcher.depth

        def draw(k: int, formula: int) -> int:
            allowed = matcher.allowed()
            upwards = ((formula + i) % self.vocab for i in range(self.vocab))
            token = next(token for token in upwards if allowed[token])
            matcher.advance(token)
            return token

        yield draw
        matcher.rollback(matcher.depth - before)

    def shown(self) -> tuple[list[list[int] | None], list[list[int] | None], list[int | None]]:
        """Counts, prompts and depths by slot, None where they are not specified."""
        counts: list[list[int] | None] = [None] * len(self.slots)
        prompts: list[list[int] | None] = [None] * len(self.slots)
        depths: list[int | None] = [None] * len(self.slots)
        for slot in self.specified:
            if (kept := self.slots[slot]) is not None:
                counts[slot] = list(kept.counts)
                prompts[slot] = [int(token in kept.prompt) for token in range(self.vocab)]
                depths[slot] = kept.matcher.depth if kept.matcher else None
        return counts, prompts, depths

    def completed(self, batch: Batch) -> None:
        """The step has not failed: what these rows know is specified."""
        self.specified = [row.seq_slot for row in batch.rows if self._of(row)]

    def _of(self, row: Row) -> Kept | None:
        """The row's own; a warm-up's made-up request has none."""
        kept = self.slots[row.seq_slot] if row.seq_slot < len(self.slots) else None
        return kept if kept and kept.incarnation == row.incarnation else None

    def _matcher(self, grammar: int) -> Matcher | None:
        if not grammar:
            return None
        assert self.guide is not None, "a grammar needs `Collaborators.guide`"
        return self.guide(grammar)


def logit_rows(logits: array[float], first: int, count: int, vocab: int) -> list[list[float]]:
    """Some rows of packed logits."""
    rows = range(first, first + count)
    return [logits[i * vocab : (i + 1) * vocab].tolist() for i in rows]
