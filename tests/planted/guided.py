"""Corrupted facts about grammars and penalties: I15, I16, and I7 where logits are given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from draftproof.properties.history import History, RealRow
from draftproof.reference.vocabulary import UNDONE, ContextRow, GenerationRow, WorkerState
from draftproof.sim.journal import Answered, Fed
from draftproof.sim.logits import PENALTIES
from planted.facts import breaks, bumped, with_batch

Row = ContextRow | GenerationRow


def _with_row(fed: Fed, b: int, **changes: Any) -> Fed:
    """One row changed in what it says about its request alone."""
    batch, contexts = fed.batch, len(fed.batch.contexts)
    rows: list[Any] = list(batch.rows)
    rows[b] = replace(rows[b], **changes)
    return with_batch(fed, contexts=tuple(rows[:contexts]), generations=tuple(rows[contexts:]))


def _real(fed: Fed, history: History) -> list[int]:
    """Rows of requests in a batch that brings logits and counts."""
    if not history.config.target_logits or fed.batch.mode in UNDONE:
        return []
    return [b for b, row in enumerate(fed.batch.rows) if row.incarnation in history.lives]


def _served(history: History) -> list[RealRow]:
    """Rows of requests in a step that was served."""
    batch = history.batch
    undone = batch is None or batch.mode in UNDONE
    wanted = history.config.target_logits and history.result is not None and not undone
    return history.real if wanted else []


# What rows say


@breaks("I15", Fed)
def another_grammar(fed: Fed, history: History) -> Fed | None:
    rows = fed.batch.rows
    own = [b for b in _real(fed, history) if rows[b].grammar]
    return _with_row(fed, own[0], grammar=0) if own else None


@breaks("I16", Fed)
def other_penalties(fed: Fed, history: History) -> Fed | None:
    own = _real(fed, history)
    if not own:
        return None
    asked = fed.batch.rows[own[0]].penalties
    return _with_row(fed, own[0], penalties=PENALTIES[(PENALTIES.index(asked) + 1) % 5])


@breaks("I16", Fed)
def a_chunk_that_is_told_to_be_the_last(fed: Fed, history: History) -> Fed | None:
    contexts = fed.batch.contexts
    own = [b for b in _real(fed, history) if b < len(contexts)]
    return _with_row(fed, own[0], last=not contexts[own[0]].last) if own else None


@breaks("I16", Fed)
def a_prompt_of_other_tokens(fed: Fed, history: History) -> Fed | None:
    told = fed.batch.prompt_tokens
    if not (_real(fed, history) and told):
        return None
    return with_batch(fed, prompt_tokens=bumped(told, 0))


# What a worker answers and remembers


@breaks("I7", Answered)
def a_token_that_was_not_the_best(entry: Answered, history: History) -> Answered | None:
    for b, _, _ in _served_rows(entry, history):
        assert entry.result is not None
        tokens = [list(row) for row in entry.result.new_tokens]
        n = entry.result.new_tokens_lens[b]
        tokens[b][n - 1] = (tokens[b][n - 1] + 1) % history.config.vocab_size
        return Answered(replace(entry.result, new_tokens=tokens))
    return None


def _served_rows(entry: Answered, history: History) -> list[RealRow]:
    batch = history.batch
    assert batch is not None
    wanted = history.config.target_logits and batch.mode not in UNDONE
    return history.real if wanted and entry.result is not None else []


@breaks("I16", WorkerState)
def a_token_counted_twice(state: WorkerState, history: History) -> WorkerState | None:
    for _, row, _ in _served(history):
        counts = state.token_counts[row.seq_slot]
        if any(counts):
            counts[counts.index(max(counts))] += 1
            return state
    return None


@breaks("I16", WorkerState)
def a_token_of_the_prompt_that_was_not_seen(state: WorkerState, history: History) -> Any:
    for _, row, _ in _served(history):
        seen = state.prompt_seen[row.seq_slot]
        if any(seen):
            seen[seen.index(1)] = 0
            return state
    return None


@breaks("I15", WorkerState)
def a_grammar_one_token_ahead(state: WorkerState, history: History) -> WorkerState | None:
    depths = state.grammar_depth
    for _, row, _ in _served(history):
        if depths is not None and (depth := depths[row.seq_slot]) is not None:
            ahead = [*depths[: row.seq_slot], depth + 1, *depths[row.seq_slot + 1 :]]
            return replace(state, grammar_depth=ahead)
    return None
