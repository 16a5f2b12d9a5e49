"""From chosen rows to a batch: drafts, the target's answers, hidden rows, random numbers."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from draftproof.reference.vocabulary import Batch, Config, ContextRow, GenerationRow, Mode
from draftproof.sim import logits, packing, target

ACCEPT, RECOVER, DRAFT = range(3)
"""Purposes of random numbers; each has a stream of its own."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What a batch consists of. Per generation: its anchor token and drafts, accepts, window."""

    step: int
    mode: Mode
    draft_len: int
    contexts: Sequence[tuple[ContextRow, int]]
    generations: Sequence[GenerationRow]
    tokens: Sequence[Sequence[int]]
    accepts: Sequence[int]
    windows: Sequence[int] | None


def assemble(config: Config, rows: Rows) -> Batch:
    """Pack one step. Contexts come with the last token of their chunk."""
    contexts = tuple(row for row, _ in rows.contexts)
    widths = rows.windows or [1 + rows.draft_len] * len(rows.generations)
    script = [
        target.answers(config, row.incarnation, row.position, tokens, accepts, width)
        for row, tokens, accepts, width in zip(
            rows.generations, rows.tokens, rows.accepts, widths, strict=True
        )
    ]
    first = [_context_answer(config, row, token) for row, token in rows.contexts]
    spans = [(row.incarnation, row.first_position, row.length) for row in contexts]
    spans += [
        (row.incarnation, row.position, width)
        for row, width in zip(rows.generations, widths, strict=True)
    ]
    all_greedy = all(row.greedy for row in contexts) and all(row.greedy for row in rows.generations)
    numbers: dict[str, Any] = {}
    answers = [*([token] for token in first), *script]
    if config.target_logits:
        numbers = _unchosen(config, [*contexts, *rows.generations], answers)
        answers = []
    if config.use_rejection_sampling and not all_greedy:
        numbers = _numbers(config, rows, script)
    return Batch(
        step=rows.step,
        mode=rows.mode,
        draft_len=rows.draft_len,
        contexts=contexts,
        generations=tuple(rows.generations),
        drafts=array("q", [draft for tokens in rows.tokens for draft in tokens[1:]]),
        target_tokens=array("q", [token for answer in answers for token in answer]),
        hidden=packing.hidden_rows(spans, rows.step),
        verify_lens=None if rows.windows is None else tuple(rows.windows),
        all_greedy=all_greedy,
        **numbers,
    )


def _unchosen(
    config: Config, rows: Sequence[ContextRow | GenerationRow], answers: Sequence[Sequence[int]]
) -> dict[str, Any]:
    """What a worker chooses the target's tokens from: its logits, and what each row has seen."""
    v, lasts = config.vocab_size, [_last_position(row) for row in rows]
    starts = [(row.incarnation, last, row.greedy) for row, last in zip(rows, lasts, strict=True)]
    told = array("q")
    for row, last in zip(rows, lasts, strict=True):
        own = range(last + 1 - row.told, last + 1)
        told.extend(target.prompt_token(row.incarnation, position, v) for position in own)
    packed = array("f", logits.packed(starts, answers, v))
    return {"target_logits": packed, "prompt_tokens": told}


def _last_position(row: ContextRow | GenerationRow) -> int:
    """Of a chunk the last one, of a generation that of its anchor."""
    return row.first_position + row.length - 1 if isinstance(row, ContextRow) else row.position


def _context_answer(config: Config, row: ContextRow, token: int) -> int:
    return target.answers(config, row.incarnation, _last_position(row), [token], 0, 1)[0]


def _numbers(
    config: Config, rows: Rows, script: Sequence[Sequence[int]]
) -> dict[str, array[float]]:
    """Everything that rejection sampling is handed."""
    probs, accept, recover, draft = array("f"), array("f"), array("f"), array("f")
    for row, answer in zip(rows.generations, script, strict=True):
        for i, token in enumerate(answer):
            mass = target.target_probs(config, row.incarnation, row.position + i, token, row.greedy)
            probs.extend(mass)
    if config.drawn_uniforms:
        return {"target_probs": probs}
    for row in rows.generations:
        inc, p = row.incarnation, row.position
        for i in range(rows.draft_len):
            accept.append(target.uniform(inc, p + i, ACCEPT))
        recover.append(target.uniform(inc, p, RECOVER))
        for k in range(config.max_draft_len):
            draft.append(target.uniform(inc, p + k, DRAFT))
    return {
        "target_probs": probs,
        "accept_uniforms": accept,
        "recover_uniforms": recover,
        "draft_uniforms": draft,
    }
