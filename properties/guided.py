"""I15, I16, and I7 where the worker chooses the target's tokens: grammars and penalties.

Told anew from semantics, section 19, over the journal alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from draftproof.properties.broken import broken
from draftproof.properties.history import History, Life
from draftproof.reference.vocabulary import Batch, ContextRow, GenerationRow, WorkerState
from draftproof.sim.grammars import GRAMMARS, moves
from draftproof.sim.logits import PENALTIES
from draftproof.sim.target import prompt_token

Row = ContextRow | GenerationRow


def check_told(history: History) -> None:
    """What rows say about their requests: grammar, penalties, prompt, and where it ends."""
    batch, v, first = history.batch, history.config.vocab_size, 0
    assert batch is not None and batch.prompt_tokens is not None
    for b, row, life in history.real:
        end = _last_position(row) + 1
        if isinstance(row, ContextRow) and row.last != (end == life.length):
            broken("I16", f"last: {not row.last}", row.last, row=b, of=row)
        if row.grammar != grammar(life):
            broken("I15", f"grammar {grammar(life)}", row.grammar, row=b, of=row)
        if row.penalties != PENALTIES[life.penalties % len(PENALTIES)]:
            broken("I16", f"penalties {life.penalties}", row.penalties, row=b, of=row)
        untold = range(life.told, min(end, life.prompt))
        wanted = [prompt_token(life.incarnation, position, v) for position in untold]
        found = batch.prompt_tokens[first : first + row.told].tolist()
        if found != wanted:
            broken("I16", f"told: {wanted}", found, row=b, of=row)
        life.told += len(wanted)
        life.seen.update(wanted)
        first += len(wanted)


def _last_position(row: Row) -> int:
    """Of a chunk the last one, of a generation that of its anchor."""
    return row.first_position + row.length - 1 if isinstance(row, ContextRow) else row.position


def check_chosen(history: History, b: int, logit_row: int, tokens: list[int]) -> None:
    """Every token is what plain decoding under grammar and penalties would have chosen there."""
    batch, v = history.batch, history.config.vocab_size
    assert batch is not None and batch.target_logits is not None
    row = batch.rows[b]
    life = history.lives.get(row.incarnation)
    before = [] if life is None else life.committed
    for i, token in enumerate(tokens):
        first = (logit_row + i) * v
        logits = batch.target_logits[first : first + v].tolist()
        output = [*before, *tokens[:i]]
        wanted = plain_choice(logits, output, life)
        if token != wanted:
            broken("I7", f"the target's {wanted}", token, row=b, position=i, of=row)


def plain_choice(logits: Sequence[float], output: Sequence[int], life: Life | None) -> int:
    """The token that follows so much output; None: a row that stands for nobody."""
    if life is None:
        return logits.index(max(logits))
    v, asked, counts = len(logits), PENALTIES[life.penalties % len(PENALTIES)], Counter(output)
    scores = []
    for token, logit in enumerate(logits):
        if counts[token] or token in life.seen:
            logit = logit / asked.repetition if logit > 0 else logit * asked.repetition
        if counts[token]:
            logit -= asked.presence + counts[token] * asked.frequency
        scores.append(logit)
    legal = range(v) if not grammar(life) else sorted(walked(grammar(life), output, v))
    return max(legal, key=lambda token: (scores[token], -token))


def walked(number: int, tokens: Sequence[int], vocab_size: int) -> dict[int, int]:
    """What may follow these tokens, all of which were allowed."""
    place = 0
    for token in tokens:
        place = moves(number, vocab_size, place)[token]
    return moves(number, vocab_size, place)


def grammar(life: Life) -> int:
    """The number of a request's grammar, 0 for none."""
    return life.grammar % (len(GRAMMARS) + 1)


def check_sequences(history: History, state: WorkerState) -> None:
    """Matchers and counts stand at what is committed, no token missing or seen twice."""
    v = history.config.vocab_size
    for _, row, life in history.real:
        _, tokens = history.undelivered.get(life.incarnation, (0, []))
        output = [*life.committed, *tokens]
        counts = [output.count(token) for token in range(v)]
        seen = [int(token in life.seen) for token in range(v)]
        if state.token_counts is not None and state.token_counts[row.seq_slot] != counts:
            broken(
                "I16",
                f"counts {counts}",
                state.token_counts[row.seq_slot],
                slot=row.seq_slot,
                of=row,
            )
        if state.prompt_seen is not None and state.prompt_seen[row.seq_slot] != seen:
            broken(
                "I16",
                f"of the prompt {seen}",
                state.prompt_seen[row.seq_slot],
                slot=row.seq_slot,
                of=row,
            )
        depth = len(output) if grammar(life) else None
        if state.grammar_depth is not None and state.grammar_depth[row.seq_slot] != depth:
            broken(
                "I15",
                f"depth {depth}",
                state.grammar_depth[row.seq_slot],
                slot=row.seq_slot,
                of=row,
            )


def sizes(batch: Batch, rows: int, vocab_size: int) -> dict[str, int]:
    """How many numbers such a batch has in its arrays; rows: all logit rows."""
    told = sum(row.told for row in batch.rows)
    return {"target_tokens": 0, "target_logits": rows * vocab_size, "prompt_tokens": told}
