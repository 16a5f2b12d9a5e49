"""Section 16: what a step leaves behind that fails on its way."""

from dataclasses import replace

import pytest
from batches import ctx, gen, make_model, run, sampled, serve, small

from draftproof.reference.vocabulary import BatchError

SAMPLING = small(use_rejection_sampling=True, vocab_size=8)


def test_a_failed_step_leaves_no_draft_probabilities_of_its_rows() -> None:
    """If this fails, drafts of a step that nobody heard of count as proposed by it."""
    armed = False

    def at(seam: str) -> None:
        if armed and seam == "accept":
            raise ZeroDivisionError

    model = make_model(SAMPLING, at)
    serve(model, ctx(10, 0, 2), gen(20, 5, 2, seq_slot=1), gen(30, 4, 3, seq_slot=2), r=3)
    before = model.state().draft_probs
    assert before is not None
    batch = sampled(gen(20, 6, 2, seq_slot=1, greedy=False), ctx(10, 2, 1), r=3)
    with pytest.raises(BatchError):
        run(model, replace(batch, hidden=None))
    assert model.state().draft_probs == before  # refused, before anything changed
    armed = True
    with pytest.raises(ZeroDivisionError):
        run(model, batch)
    assert model.state().draft_probs == [[], [], before[2]]
