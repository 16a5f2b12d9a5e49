"""Corrupted batches: requests that must not be fed, or not there, or not with these drafts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from draftproof.properties.history import History
from draftproof.reference.vocabulary import UNDONE, ContextRow, GenerationRow
from draftproof.sim.journal import Answered, Delivered, Departed, Entry, Fed, Submitted
from planted.facts import (
    breaks,
    bumped,
    real_generations,
    with_batch,
    with_context,
    with_generation,
)

# Who is fed: I13, I14, I19, I8


@breaks("I13", Submitted)
def an_incarnation_that_comes_twice(entry: Submitted, history: History) -> list[Entry]:
    return [entry, replace(entry, request_id=9999)]


@breaks("I13", Submitted)
def an_id_that_somebody_has(entry: Submitted, history: History) -> list[Entry]:
    return [entry, replace(entry, incarnation=9999)]


@breaks("I13", Delivered)
def a_result_that_never_arrives(entry: Delivered, history: History) -> list[Entry] | None:
    life = history.lives[entry.incarnation]
    total = len(life.output) + len(entry.tokens)
    goes_on = total < life.limit and life.stop not in entry.tokens
    return [] if goes_on else None


@breaks("I13", Fed)
def a_row_under_another_id(fed: Fed, history: History) -> Fed | None:
    real = real_generations(fed.batch, history)
    return with_generation(fed, 0, request_id=9999) if real else None


@breaks("I13", Fed)
def a_row_of_somebody_who_left(fed: Fed, history: History) -> list[Entry] | None:
    real = real_generations(fed.batch, history)
    if not real:
        return None
    return [Departed(fed.batch.generations[0].incarnation, "cancelled"), fed]


@breaks("I14", Submitted)
def a_request_that_goes_on_behind_its_limit(entry: Submitted, history: History) -> Any:
    return (
        replace(entry, event=structs.replace(entry.event, limit=1))
        if entry.event.limit > 9
        else None
    )


@breaks("I19", Answered)
def a_request_that_lives_through_a_failed_step(entry: Answered, history: History) -> Any:
    unfinished = history.real and all(
        isinstance(row, ContextRow) and row.first_position + row.length < life.length
        for _, row, life in history.real
    )
    return replace(entry, result=None) if unfinished and entry.result is not None else None


@breaks("I19", Answered)
def a_request_that_was_left_out_when_a_step_failed(entry: Answered, history: History) -> Any:
    waiting = any(life.stages and life.over is None for life in history.lives.values())
    idle = history.batch is not None and history.batch.mode == "eager" and not history.real
    return replace(entry, result=None) if idle and waiting and entry.result is not None else None


@breaks("I8", Fed)
def a_sampled_request_taken_for_greedy(fed: Fed, history: History) -> Fed | None:
    if history.config.use_rejection_sampling or not real_generations(fed.batch, history):
        return None
    return with_generation(fed, 0, greedy=not fed.batch.generations[0].greedy)


# Where it goes on: I4, I5


@breaks("I4", Fed)
def a_chunk_that_leaves_out_a_token(fed: Fed, history: History) -> Fed | None:
    row = fed.batch.contexts[0] if fed.batch.contexts and history.lives else None
    if row is None or fed.batch.mode in UNDONE:
        return None
    return with_context(fed, 0, first_position=row.first_position + 1)


@breaks("I4", Fed)
def a_chunk_longer_than_the_prompt(fed: Fed, history: History) -> Fed | None:
    for c, row in enumerate(fed.batch.contexts):
        life = history.lives.get(row.incarnation)
        if life and row.first_position + row.length == life.length:
            history.config = replace(history.config, max_num_tokens=9999)
            return with_context(fed, c, length=row.length + 1)
    return None


@breaks("I4", Fed)
def a_prompt_token_taken_for_an_anchor(fed: Fed, history: History) -> Fed | None:
    """The last chunk row, of one token in a step without drafts, packs like a generation."""
    batch = fed.batch
    plain = batch.draft_len == 0 and not history.config.use_rejection_sampling
    row = batch.contexts[-1] if batch.contexts and plain else None
    life = history.lives.get(row.incarnation) if row else None
    if row is None or life is None or row.length > 1 or row.first_position + 2 > life.length - 1:
        return None
    anchor = GenerationRow(
        row.request_id,
        row.incarnation,
        row.seq_slot,
        row.first_position,
        greedy=row.greedy,
        grammar=row.grammar,
        penalties=row.penalties,
        told=row.told,
    )
    return with_batch(fed, contexts=batch.contexts[:-1], generations=(anchor, *batch.generations))


@breaks("I5", Fed)
def an_anchor_one_position_too_far(fed: Fed, history: History) -> Fed | None:
    real = real_generations(fed.batch, history)
    row = fed.batch.generations[0] if real else None
    return with_generation(fed, 0, position=row.position + 1) if row else None


# Reserved rows: I17


@breaks("I17", Fed)
def too_few_rows_reserved(fed: Fed, history: History) -> Fed | None:
    if fed.batch.mode in UNDONE or fed.reserved[0] is None:
        return None
    first = fed.batch.rows[0]
    if isinstance(first, ContextRow):
        furthest = first.first_position + first.length
    else:
        furthest = first.position + 1 + fed.batch.draft_len
    return replace(fed, reserved=(furthest - 1, *fed.reserved[1:]))


@breaks("I17", Fed)
def nothing_reserved(fed: Fed, history: History) -> Fed | None:
    if fed.batch.mode in UNDONE or fed.reserved[0] is None:
        return None
    return replace(fed, reserved=(None, *fed.reserved[1:]))


# Drafts and numbers: I18, I10


@breaks("I18", Fed)
def a_draft_that_nobody_proposed(fed: Fed, history: History) -> Fed | None:
    if not real_generations(fed.batch, history) or not fed.batch.draft_len:
        return None
    return with_batch(fed, drafts=bumped(fed.batch.drafts, 0))


@breaks("I18", Fed)
def drafts_of_the_neighbour(fed: Fed, history: History) -> Fed | None:
    batch, r = fed.batch, fed.batch.draft_len
    real = real_generations(batch, history)
    swapped = batch.drafts[r : 2 * r] + batch.drafts[:r] + batch.drafts[2 * r :]
    return with_batch(fed, drafts=swapped) if len(real) > 1 and swapped != batch.drafts else None


@breaks("I18", Fed)
def a_placeholder_taken_for_a_draft(fed: Fed, history: History) -> Fed | None:
    batch = fed.batch
    for g in real_generations(batch, history):
        if batch.generations[g].proposed < batch.draft_len:
            return with_generation(fed, g, proposed=batch.draft_len)
    return None


@breaks("I18", Fed)
def drafts_whose_probabilities_are_elsewhere(fed: Fed, history: History) -> Fed | None:
    taken = {row.seq_slot for row in fed.batch.rows}
    free = set(range(history.config.max_num_requests)) - taken
    for g in real_generations(fed.batch, history):
        if free and fed.batch.generations[g].proposed:
            return with_generation(fed, g, seq_slot=min(free))
    return None


@breaks("I10", Fed)
def the_seed_of_another(fed: Fed, history: History) -> Fed | None:
    real = real_generations(fed.batch, history)
    return with_generation(fed, 0, seed=fed.batch.generations[0].seed + 1) if real else None


def wrong_number(name: str) -> None:
    @breaks("I10", Fed, name)
    def a_random_number_of_another(fed: Fed, history: History) -> Fed | None:
        numbers = getattr(fed.batch, name)
        if not numbers or fed.batch.mode in UNDONE:
            return None
        return with_batch(fed, **{name: bumped(numbers, 0, 2.0**-20)})


for _name in ("accept_uniforms", "recover_uniforms", "draft_uniforms"):
    wrong_number(_name)
