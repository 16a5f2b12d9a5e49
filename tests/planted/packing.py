"""Corrupted batches: arrays, draft lengths and padding that do not fit."""

from __future__ import annotations

from dataclasses import replace

from draftproof.properties.history import History
from draftproof.reference.vocabulary import UNDONE
from draftproof.sim.journal import Fed
from planted.facts import (
    breaks,
    bumped,
    real_generations,
    retagged,
    with_batch,
    with_generation,
)

# How it is packed: I9


@breaks("I9", Fed)
def one_verify_window_too_few(fed: Fed, history: History) -> Fed | None:
    windows = fed.batch.verify_lens or ()
    return with_batch(fed, verify_lens=windows[:-1]) if len(windows) > 1 else None


@breaks("I9", Fed)
def an_empty_verify_window(fed: Fed, history: History) -> Fed | None:
    windows = fed.batch.verify_lens
    return with_batch(fed, verify_lens=(0, *windows[1:])) if windows else None


@breaks("I9", Fed)
def a_verify_window_beyond_the_drafts(fed: Fed, history: History) -> Fed | None:
    windows, r = fed.batch.verify_lens, fed.batch.draft_len
    return with_batch(fed, verify_lens=(2 + r, *windows[1:])) if windows else None


@breaks("I9", Fed)
def more_token_rows_than_agreed(fed: Fed, history: History) -> Fed | None:
    assert fed.batch.hidden is not None
    history.config = replace(history.config, max_num_tokens=len(fed.batch.hidden) // 7 - 1)
    return fed


def one_number_missing(name: str) -> None:
    @breaks("I9", Fed, name)
    def the_last_number_is_missing(fed: Fed, history: History) -> Fed | None:
        buffer = getattr(fed.batch, name)
        return with_batch(fed, **{name: buffer[:-1]}) if buffer else None


for _name in (
    "drafts",
    "target_tokens",
    "hidden",
    "target_probs",
    "accept_uniforms",
    "recover_uniforms",
    "draft_uniforms",
):
    one_number_missing(_name)


def wrong_hidden(component: int, what: str) -> None:
    @breaks("I9", Fed, what)
    def a_hidden_row_of_another(fed: Fed, history: History) -> Fed:
        assert fed.batch.hidden is not None
        hidden = fed.batch.hidden[:]
        hidden[component - 7] = (hidden[component - 7] + 1) % 128
        return with_batch(fed, hidden=hidden)


for _component, _what in ((0, "request"), (2, "position"), (4, "step")):
    wrong_hidden(_component, _what)


@breaks("I9", Fed)
def two_hidden_rows_swapped(fed: Fed, history: History) -> Fed | None:
    hidden = fed.batch.hidden
    assert hidden is not None
    swapped = hidden[7:14] + hidden[:7] + hidden[14:]
    return with_batch(fed, hidden=swapped) if len(hidden) > 7 else None


@breaks("I9", Fed)
def two_requests_share_a_sequence_slot(fed: Fed, history: History) -> Fed | None:
    real = real_generations(fed.batch, history)
    if len(real) < 2:
        return None
    return with_generation(fed, 0, seq_slot=fed.batch.generations[1].seq_slot)


@breaks("I9", Fed)
def a_request_stands_twice(fed: Fed, history: History) -> Fed | None:
    real = real_generations(fed.batch, history)
    if len(real) < 2:
        return None
    first = fed.batch.generations[0]
    return with_generation(fed, 1, request_id=first.request_id, incarnation=first.incarnation)


@breaks("I9", Fed)
def a_sequence_slot_that_does_not_exist(fed: Fed, history: History) -> Fed | None:
    real = real_generations(fed.batch, history)
    return with_generation(fed, 0, seq_slot=history.config.max_num_requests) if real else None


# Draft length and padding


@breaks("draft length lookup", Fed)
def longer_drafts_than_a_block(fed: Fed, history: History) -> Fed | None:
    config, batch = history.config, fed.batch
    plain = not (config.draft_len_schedule or config.use_rejection_sampling or batch.verify_lens)
    if not plain or not batch.draft_len or batch.mode in UNDONE:
        return None
    history.config = replace(config, max_draft_len=batch.draft_len - 1)
    return fed


@breaks("draft length lookup", Fed)
def a_ragged_step_that_drafts_less_than_a_block(fed: Fed, history: History) -> Fed | None:
    if fed.batch.verify_lens is None or fed.batch.draft_uniforms is not None:
        return None
    history.config = replace(history.config, max_draft_len=fed.batch.draft_len + 1)
    return fed


@breaks("draft length lookup", Fed)
def another_length_than_the_schedule_says(fed: Fed, history: History) -> Fed | None:
    config = history.config
    if not (config.draft_len_schedule and fed.batch.draft_len) or fed.batch.mode in UNDONE:
        return None
    other = tuple((rows, length + 1) for rows, length in config.draft_len_schedule)
    history.config = replace(config, draft_len_schedule=other)
    return fed


@breaks("draft length lookup", Fed)
def a_length_looked_up_with_the_padding(fed: Fed, history: History) -> Fed | None:
    batch, config = fed.batch, history.config
    real = len(real_generations(batch, history))
    if batch.mode != "replay" or real == len(batch.generations) or not config.draft_len_schedule:
        return None
    schedule = ((real, batch.draft_len + 1), (len(batch.generations), batch.draft_len))
    history.config = replace(config, draft_len_schedule=schedule)
    return fed


@breaks("padding", Fed)
def a_replay_of_prompts(fed: Fed, history: History) -> Fed | None:
    return with_batch(fed, mode="replay") if fed.batch.contexts and history.lives else None


@breaks("padding", Fed)
def padding_without_a_graph(fed: Fed, history: History) -> Fed | None:
    padded = len(fed.batch.generations) > len(real_generations(fed.batch, history)) > 0
    return with_batch(fed, mode="eager") if padded and fed.batch.mode == "replay" else None


@breaks("padding", Fed)
def padding_beyond_the_smallest_graph(fed: Fed, history: History) -> Fed | None:
    real, config = len(real_generations(fed.batch, history)), history.config
    fits = real in config.graph_batch_sizes or config.draft_len_schedule is not None
    if fed.batch.mode != "replay" or fits:
        return None
    history.config = replace(config, graph_batch_sizes=(real, *config.graph_batch_sizes))
    return fed


@breaks("padding", Fed)
def a_graph_of_another_draft_length(fed: Fed, history: History) -> Fed | None:
    batch, config, r = fed.batch, history.config, fed.batch.draft_len
    real, size = len(real_generations(batch, history)), len(batch.generations)
    if batch.mode != "replay" or real in (0, size) or r == config.max_draft_len:
        return None
    history.config = replace(config, draft_len_schedule=((real, r), (size, r + 1)))
    return fed


@breaks("padding", Fed)
def a_request_that_nobody_submitted(fed: Fed, history: History) -> Fed | None:
    if not real_generations(fed.batch, history) or history.config.draft_len_schedule:
        return None
    return with_generation(fed, 0, request_id=9999, incarnation=9999)


def wrong_dummy(name: str, value: int) -> None:
    @breaks("padding", Fed, name)
    def a_dummy_row_that_looks_like_another(fed: Fed, history: History) -> Fed | None:
        last = fed.batch.generations[-1:]
        if fed.batch.mode in UNDONE or not last or last[0].incarnation:
            return None
        return with_generation(fed, len(fed.batch.generations) - 1, **{name: value})


for _name, _value in (("request_id", 1), ("seq_slot", 0), ("position", 99)):
    wrong_dummy(_name, _value)


@breaks("padding", Fed)
def a_dummy_row_that_verifies_a_draft(fed: Fed, history: History) -> Fed | None:
    windows = fed.batch.verify_lens or ()
    if len(windows) < 2 or windows[-2] < 2 or fed.batch.generations[-1].incarnation:
        return None
    if fed.batch.verify_bucket is not None:
        return None  # there dummies may take up slack
    return retagged(with_batch(fed, verify_lens=(*windows[:-2], windows[-2] - 1, 2)))


@breaks("padding", Fed)
def a_dummy_row_with_other_drafts(fed: Fed, history: History) -> Fed | None:
    last = fed.batch.generations[-1:]
    if fed.batch.mode in UNDONE or not fed.batch.draft_len or not last or last[0].incarnation:
        return None
    return with_batch(fed, drafts=bumped(fed.batch.drafts, -1))
