"""Sections 6, 8 and 19: rejection sampling in a whole step, and the probabilities that are kept."""

from array import array
from dataclasses import replace

import pytest
from batches import ctx, gen, make_model, run, sampled, serve, small, snapshot

from draftproof.reference.acceptance import one_hot
from draftproof.reference.vocabulary import BatchError

V = 8
SAMPLING = small(use_rejection_sampling=True, vocab_size=V)


def test_contexts_and_argmax_drafts_get_one_hot_rows() -> None:
    """If this fails, drafts that nobody sampled are tested against stale or missing rows.

    Also in an all-greedy step: the next step may sample.
    """
    model = make_model(SAMPLING)
    block = serve(model, ctx(10, 0, 2), gen(20, 5, 2, seq_slot=1), r=3).next_draft_tokens[1]
    probs = model.state().draft_probs
    assert probs[0] == [one_hot(0, V)] * 3
    assert probs[1] == [one_hot(token, V) for token in block]
    assert probs[2] == []


def test_a_zero_draft_step_writes_no_probabilities() -> None:
    """If this fails, probabilities change in a step that drafts nothing."""
    model = make_model(SAMPLING)
    serve(model, ctx(10, 0, 6), r=3)
    run(model, sampled(gen(10, 6, greedy=False), ctx(20, 0, 2, 2, seq_slot=1), r=3))
    before = snapshot(model)
    run(model, sampled(gen(10, 7, greedy=False), ctx(20, 2, 1, 2, seq_slot=1), r=0))
    assert snapshot(model)["draft_probs"] == before["draft_probs"]
    assert snapshot(model)["confidence_logits"] == before["confidence_logits"]


def test_without_rejection_sampling_no_probabilities_are_kept() -> None:
    """If this fails, a worker without draft probabilities is asked for some."""
    model = make_model(small())
    serve(model, ctx(10, 0, 2), gen(20, 5, 2, seq_slot=1), r=3)
    assert model.state().draft_probs == [[], [], []]


def test_a_sampled_block_by_hand() -> None:
    """If this fails, drafts are not drawn from the p that they are tested against (section 19).

    The window of one row: sum 2, start 1; the placeholder is rejected for the bonus 1; V = 8.
      k = 0: 2 + 31 * 1 + 0 + 1 = 34 = 2 mod 8;  u = 1/2 passes 2 (sum 1/2, not more) and takes 3
      k = 1: 2 + 31 * 3 + 7 + 1 = 103 = 7;  p = 1/4 on 0, 1/8 on 1, ...;  u = 1/4 takes 1
      k = 2: 2 + 31 * 1 + 14 + 1 = 48 = 0;  u = 1 takes the last token with mass, 3
    """
    model, row = make_model(SAMPLING), gen(10, 0, greedy=False, seq_slot=2)
    batch = sampled(row, r=3, q=[one_hot(1, V)] * 4, draft=[0.5, 0.25, 1.0])
    assert run(model, batch).next_new_tokens == [[1, 3, 1, 3]]
    state = model.state()
    assert state.draft_probs[2] == [
        [0.0, 0.0, 0.5, 0.25, 0.125, 0.125, 0.0, 0.0],
        [0.25, 0.125, 0.125, 0.0, 0.0, 0.0, 0.0, 0.5],
        [0.5, 0.25, 0.125, 0.125, 0.0, 0.0, 0.0, 0.0],
    ]
    logits = [2 + 13 * 1 + 0, 2 + 13 * 3 + 1, 2 + 13 * 1 + 2]
    assert state.confidence_logits[0] == [(i % 64 - 32) / 8 for i in logits]


def test_a_row_draws_its_drafts_with_its_own_numbers() -> None:
    """If this fails, requests of a batch draw with one another's uniforms (invariant I10)."""
    row, numbers = gen(20, 0, greedy=False, seq_slot=1), [0.5, 0.25, 1.0]
    q = [one_hot(1, V)] * 8
    alone = run(make_model(SAMPLING), sampled(row, r=3, q=q[:4], draft=numbers))
    rows = [gen(10, 0, 2, greedy=False), row]
    both = run(make_model(SAMPLING), sampled(*rows, r=3, q=q, draft=[0.875, 0.75, 0.1, *numbers]))
    assert both.next_draft_tokens[1] == alone.next_draft_tokens[0] == [3, 1, 3]
    assert both.next_draft_tokens[0] != alone.next_draft_tokens[0]


def test_a_greedy_row_of_a_sampled_batch_drafts_by_argmax() -> None:
    """If this fails, a greedy request's drafts depend on random numbers of its neighbours."""
    model, alone = make_model(SAMPLING), make_model(SAMPLING)
    rows = [gen(20, 0, seq_slot=1), gen(10, 0, 2, greedy=False)]
    batch = sampled(*rows, r=3, q=[one_hot(1, V)] * 8)  # the bonus is 1, as in the greedy batch
    block = run(model, batch).next_draft_tokens[0]
    assert block == serve(alone, gen(20, 0, seq_slot=1), r=3).next_draft_tokens[0]
    assert model.state().draft_probs[1] == [one_hot(token, V) for token in block]


def accepted(proposed: int, p: list[list[float]], accept: float) -> int:
    """How many of three drafts of token 0 are accepted at q(0) = 1/2 when p was stored."""
    model = make_model(SAMPLING)
    model.draft_probs[1] = p
    q = [[0.5] + [0.5 / 7] * 7] * 4
    row = gen(10, 4, seq_slot=1, proposed=proposed, greedy=False)
    lengths: list[int] = run(model, sampled(row, r=3, q=q, accept=accept)).new_tokens_lens
    return lengths[0] - 1


def test_placeholders_are_tested_against_one_hot_rows() -> None:
    """If this fails, a step with more drafts than were proposed is lossy (section 16, row 8).

    Where p is the row stored for a discarded draft, u * p < q, so a placeholder would pass; but
    nobody drew it from that row: its p is 1, and u * 1 < q fails.
    """
    stored = [[0.25] + [0.75 / 7] * 7] * 3
    assert accepted(3, stored, accept=0.75) == 3
    assert accepted(2, stored, accept=0.75) == 2
    assert accepted(0, stored, accept=0.75) == 0
    assert accepted(0, [], accept=0.25) == 3


def test_missing_probabilities_are_an_error() -> None:
    """If this fails, drafts are tested against rows that nobody wrote."""
    model = make_model(SAMPLING)
    batch = sampled(gen(10, 4, proposed=2, greedy=False), r=3)
    model.prepare(batch)
    before = snapshot(model)
    with pytest.raises(BatchError, match=r"^no draft probabilities for request 10$"):
        model.forward(batch)
    assert snapshot(model) == before


def test_probabilities_beyond_a_verify_window_may_be_missing() -> None:
    """If this fails, a ragged row of one anchor is refused for rows that nobody looks at."""
    model = make_model(SAMPLING)
    batch = sampled(gen(10, 4, proposed=2, greedy=False), r=3, verify_lens=(1,))
    assert run(model, batch).new_tokens_lens == [1]


def test_sampling_reads_q_of_its_own_rows() -> None:
    """If this fails, rows of a sampled batch are decided by a neighbour's q."""
    model = make_model(SAMPLING)
    q = [one_hot(token, V) for token in (0, 0, 5, 0, 6, 0)]
    rows = [gen(10, 4, greedy=False), gen(20, 4, 2, greedy=False, seq_slot=1)]
    batch = sampled(ctx(30, 0, 2, 3, seq_slot=2), *rows, r=2, q=q)
    assert run(model, batch).new_tokens == [[1], [0, 0, 5], [0, 6]]


def test_sampling_reads_the_numbers_of_its_own_rows() -> None:
    """If this fails, rows of a sampled batch are decided by a neighbour's uniforms.

    q(0) = 1/2 against placeholders (p = 1): a uniform under 1/2 accepts.
    """
    model = make_model(SAMPLING)
    even = [0.5, 0.5, 0, 0, 0, 0, 0, 0]
    rows = [gen(10, 4, greedy=False), gen(20, 4, 2, greedy=False, seq_slot=1)]
    batch = replace(
        sampled(*rows, r=2, q=[even] * 6),
        accept_uniforms=array("f", [0.25, 0.75, 0.25, 0.25]),
        recover_uniforms=array("f", [0.25, 0.75]),
    )
    assert run(model, batch).new_tokens == [[0, 1], [0, 0, 1]]
