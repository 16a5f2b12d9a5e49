"""Sections 6 and 8: each request's block is drafted behind its own tokens, in its own window."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from batches import ctx, gen, make_batch, make_model, run, sampled, serve, small

from draftproof.reference.acceptance import one_hot
from draftproof.reference.drafter import make_drafter, tags_over_stages, window_sum
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import PADDING_ID_BASE, BatchError, Frames


def drafted_behind(model: Model, slot: int, bonus: int) -> list[int]:
    """What the lent drafter makes of the window in a slot."""
    state = model.state()
    return make_drafter(model.config)(state.windows[slot], state.ctx_len[slot], bonus)[0]


def test_a_block_is_drafted_behind_the_rows_own_bonus() -> None:
    """If this fails, a row drafts behind its neighbour's tokens, or behind its first new one."""
    model, r = make_model(small(max_num_requests=4, num_stages=2)), 2
    decoding = gen(20, 5, 2), gen(30, 9, 3), gen(PADDING_ID_BASE - r, 0, 0)
    target = {"drafts": array("q", [7, 9, 3, 4, 1, 1])}
    target["target_tokens"] = array("q", [8, 7, 20, 0, 3, 4, 33, 0, 0, 0])
    result = serve(model, ctx(10, 0, 2), *decoding, r=r, **target)
    assert result.new_tokens[:3] == [[8], [7, 20], [3, 4, 33]]
    places = model.state().slots
    assert places is not None
    wanted = [drafted_behind(model, places[20], 20)[:r], drafted_behind(model, places[30], 33)[:r]]
    assert result.next_draft_tokens == [[0, 0], *wanted, [0, 0]]
    assert wanted[0] != wanted[1]


def test_so_is_one_whose_tokens_the_worker_has_chosen() -> None:
    """If this fails, a worker that is given logits drafts behind its first new token."""
    config = small(target_logits=True, vocab_size=6)
    model, row, logits = make_model(config), gen(10, 2, told=3), [[0.0] * 6 for _ in range(3)]
    for position, token in enumerate((5, 4, 0)):
        logits[position][token] = 8.0
    given: dict[str, Any] = {"drafts": array("q", [5, 1]), "target_tokens": array("q")}
    given["target_logits"] = array("f", [number for row in logits for number in row])
    result = serve(model, row, r=2, prompt_tokens=array("q", [0, 0, 0]), **given)
    assert result.new_tokens == [[5, 4]]
    assert result.next_draft_tokens == [drafted_behind(model, 0, 4)[:2]]
    assert drafted_behind(model, 0, 4)[:2] != drafted_behind(model, 0, 5)[:2]


def test_rows_are_tested_against_their_own_probabilities() -> None:
    """If this fails, one request's drafts are tested against those of another.

    Of the first row all three were drawn from p(0) = 1/4, of the second none was drawn: p = 1.
    """
    model = make_model(small(use_rejection_sampling=True, vocab_size=8))
    model.draft_probs[1] = [[0.25] + [0.75 / 7] * 7] * 3
    rows = [
        gen(10, 4, seq_slot=1, proposed=3, greedy=False),
        gen(20, 4, 2, seq_slot=2, proposed=0, greedy=False),
    ]
    batch = sampled(*rows, r=3, q=[[0.5] + [0.5 / 7] * 7] * 8, accept=0.75)
    assert run(model, batch).new_tokens_lens == [4, 1]


def test_every_draft_that_is_tested_needs_its_probabilities() -> None:
    """If this fails, the last draft of a block is tested against a row that nobody wrote."""
    model = make_model(small(use_rejection_sampling=True, vocab_size=8))
    model.draft_probs[1] = [one_hot(0, 8)] * 2
    with pytest.raises(BatchError, match="no draft probabilities for request 10"):
        run(model, sampled(gen(10, 4, seq_slot=1, proposed=3, greedy=False), r=3))


@pytest.mark.parametrize("missing", ["confidences", "verify_budget"])
def test_a_plan_needs_confidences_and_a_budget(missing: str) -> None:
    """If this fails, windows are chosen by nothing, or the exception is no sentence."""
    model = make_model(small(confidence_scheduling=True))
    given: dict[str, Any] = {"confidences": array("f", [0.5] * 15), "verify_budget": 2}
    batch = make_batch(gen(10, 4), r=3, **given | {missing: None})
    model.prepare(batch)
    with pytest.raises(BatchError, match="no confidences came with this step, or no budget"):
        model.plan(batch)


def test_tags_are_summed_over_stages() -> None:
    """If this fails, drafts depend on the window in another way than section 8a says.

    2 + 3 * 1 + 5 * 44 + 7 * 2 + 9 * 7 + 11 * 1 = 313; 13 more in stage 1, 26 in stage 2.
    """
    rows = Frames(bytes([2, 1, 44, 2, 7, 1, 0, 1, 0, 0, 0, 0, 0, 0]))
    assert tags_over_stages(rows, 3) == [3 * 313 + 39, 3 * 1 + 39]
    assert tags_over_stages(rows, 1) == [313, 1]


def test_the_weights_of_a_long_window_come_round() -> None:
    """If this fails, frames of a window beyond 251 have no weight.

    Of 300 frames 251 weigh 1 ... 251, the others 1 ... 49.
    """
    assert window_sum(0, [1] * 300) == 251 * 252 // 2 + 49 * 50 // 2
