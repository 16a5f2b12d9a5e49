"""Corrupted answers and deliveries: what a worker must not say, and an engine not hand on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from msgspec import structs

from draftproof.properties.history import History
from draftproof.reference.vocabulary import UNDONE, StepResult
from draftproof.sim.journal import Answered, Delivered, Departed, Entry, Submitted
from planted.facts import breaks


def _rows(entry: Answered, history: History) -> Iterator[tuple[int, int, bool]]:
    """Row, tokens given, whether it is a context; none for answers that nobody checks."""
    batch, result = history.batch, entry.result
    assert batch is not None
    if result is not None and batch.mode not in UNDONE:
        for b in range(len(batch.rows)):
            yield b, result.new_tokens_lens[b], b < len(batch.contexts)


def _with(entry: Answered, field: str, b: int, value: Any) -> Answered:
    """The answer with one field of one row changed."""
    assert isinstance(entry.result, StepResult)
    changes: dict[str, Any] = {field: list(getattr(entry.result, field))}
    changes[field][b] = value
    return Answered(replace(entry.result, **changes))


def _next(token: int, history: History) -> int:
    return (token + 1) % history.config.vocab_size


# The worker's answer


@breaks("I5", Answered, "none")
def tokens_miscounted(entry: Answered, history: History) -> Answered | None:
    return next((_with(entry, "new_tokens_lens", b, 0) for b, *_ in _rows(entry, history)), None)


@breaks("I5", Answered, "more than were verified")
def tokens_counted_twice(entry: Answered, history: History) -> Answered | None:
    for b, _, context in _rows(entry, history):
        width = 1 if context else history.widths[b]
        return _with(entry, "new_tokens_lens", b, width + 1)
    return None


@breaks("I6", Answered)
def an_accepted_token_that_is_not_the_draft(entry: Answered, history: History) -> Any:
    for b, n, _ in _rows(entry, history):
        if n > 1 and entry.result is not None:
            first, *rest = entry.result.new_tokens[b]
            return _with(entry, "new_tokens", b, [_next(first, history), *rest])
    return None


@breaks("I7", Answered)
def a_bonus_that_the_target_did_not_say(entry: Answered, history: History) -> Any:
    assert history.batch is not None
    for b, n, _ in _rows(entry, history):
        if history.batch.target_probs is None and entry.result is not None:
            tokens = list(entry.result.new_tokens[b])
            tokens[n - 1] = _next(tokens[n - 1], history)
            return _with(entry, "new_tokens", b, tokens)
    return None


@breaks("longest prefix", Answered)
def an_accepted_draft_given_up(entry: Answered, history: History) -> Any:
    """The last draft that the target repeated comes out as its own token instead."""
    assert history.batch is not None
    for b, n, _ in _rows(entry, history):
        if n > 1 and history.batch.target_probs is None and entry.result is not None:
            shorter = _with(entry, "new_tokens", b, entry.result.new_tokens[b][: n - 1])
            return _with(shorter, "new_tokens_lens", b, n - 1)
    return None


@breaks("I8", Answered)
def a_token_without_mass(entry: Answered, history: History) -> Any:
    batch, v = history.batch, history.config.vocab_size
    assert batch is not None
    for b, n, context in _rows(entry, history):
        if batch.target_probs is not None and not context and entry.result is not None:
            row = sum(history.widths[len(batch.contexts) : b]) + n - 1
            probs = batch.target_probs[row * v : (row + 1) * v].tolist()
            tokens = [*entry.result.new_tokens[b][: n - 1], probs.index(0.0)]
            return _with(entry, "new_tokens", b, tokens)
    return None


@breaks("I20", Answered)
def a_proposal_too_few(entry: Answered, history: History) -> Answered | None:
    for b, *_ in _rows(entry, history):
        if entry.result is not None and len(entry.result.next_draft_tokens[b]):
            return _with(entry, "next_draft_tokens", b, entry.result.next_draft_tokens[b][:-1])
    return None


@breaks("I18", Answered)
def a_prompt_that_proposes_drafts(entry: Answered, history: History) -> Answered | None:
    for b, _, context in _rows(entry, history):
        if context and entry.result is not None and len(entry.result.next_draft_tokens[b]):
            drafts = [1] * len(entry.result.next_draft_tokens[b])
            return _with(entry, "next_draft_tokens", b, drafts)
    return None


@breaks("I18", Answered)
def a_next_block_that_was_not_proposed(entry: Answered, history: History) -> Answered | None:
    for b, *_ in _rows(entry, history):
        if entry.result is not None:
            anchor, *drafts = entry.result.next_new_tokens[b]
            return _with(entry, "next_new_tokens", b, [_next(anchor, history), *drafts])
    return None


# What is delivered


@breaks("I13", Delivered)
def a_delivery_to_somebody_who_left(entry: Delivered, history: History) -> list[Entry]:
    return [Departed(entry.incarnation, "cancelled"), entry]


@breaks("I13", Delivered)
def a_delivery_under_another_id(entry: Delivered, history: History) -> Delivered:
    return replace(entry, request_id=9999)


@breaks("I13", Delivered)
def a_result_of_another_step(entry: Delivered, history: History) -> Delivered:
    return replace(entry, step=entry.step + 1)


@breaks("I13", Delivered)
def a_result_delivered_twice(entry: Delivered, history: History) -> list[Entry]:
    return [entry, entry]


@breaks("I20", Delivered)
def a_token_that_was_not_answered(entry: Delivered, history: History) -> Delivered:
    return replace(entry, tokens=(*entry.tokens[:-1], _next(entry.tokens[-1], history)))


@breaks("I20", Delivered)
def a_delivery_of_nothing(entry: Delivered, history: History) -> Delivered:
    return replace(entry, tokens=())


@breaks("I20", Delivered)
def a_token_dropped_before_the_end(entry: Delivered, history: History) -> Delivered | None:
    given, life = entry.tokens[:-1], history.lives[entry.incarnation]
    if not given or len(life.output) + len(entry.tokens) > life.limit:
        return None
    return replace(entry, tokens=given, kept=entry.kept - 1)


@breaks("I14", Submitted)
def tokens_beyond_the_limit(entry: Submitted, history: History) -> Submitted | None:
    """An imported prompt, so that the first delivery may already be several tokens."""
    if not entry.event.imported or entry.event.limit < 9:
        return None
    return replace(entry, event=structs.replace(entry.event, limit=1))


@breaks("I14", Submitted)
def tokens_behind_the_stop(entry: Submitted, history: History) -> Submitted | None:
    if entry.event.stop is not None or entry.event.limit < 9:
        return None
    return replace(entry, event=structs.replace(entry.event, stop=0))


@breaks("I14", Delivered)
def an_output_that_goes_on_behind_its_stop(entry: Delivered, history: History) -> Any:
    life = history.lives[entry.incarnation]
    if not life.output or life.stop is not None:
        return None
    life.stop = life.output[-1]
    return entry


@breaks("I7", Delivered)
def an_output_that_is_not_plain_decode(entry: Delivered, history: History) -> Delivered | None:
    """A scripted target taken for the autonomous one: what it says does not follow the law."""
    if history.config.target == "autonomous" or len(entry.tokens) < 3:
        return None
    history.config = replace(history.config, target="autonomous")
    return entry


@breaks("I17", Delivered)
def more_rows_kept_than_committed(entry: Delivered, history: History) -> Delivered:
    return replace(entry, kept=entry.kept + 1)


@breaks("I13", Departed)
def a_request_that_departs_twice(entry: Departed, history: History) -> list[Entry]:
    return [entry, entry]


@breaks("I14", Departed)
def a_request_that_finishes_early(entry: Departed, history: History) -> Departed | None:
    ended = history.lives[entry.incarnation].ended
    return None if ended else replace(entry, reason="finished")
