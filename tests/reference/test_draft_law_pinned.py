"""Drafts by a law that is lent (section 19), by hand."""

from batches import gen, make_batch, run, sampled, small

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Collaborators

LAW = [[0.5, 0.25, 0.25, 0.0], [0.0, 0.25, 0.5, 0.25], [0.25, 0.5, 0.0, 0.25]]
"""p of each position; the most likely token is 0, then 2, then 1."""


def model() -> Model:
    config = small(use_rejection_sampling=True, vocab_size=4)
    return Model(config, Collaborators(lambda seam: None, lambda *_: ([], []), draft_law=LAW))


def test_an_argmax_takes_the_most_likely_token_of_each_position() -> None:
    """If this fails, drafts of one position follow the law of another."""
    law = model()
    assert run(law, make_batch(gen(10, 5), r=3)).next_draft_tokens == [[0, 2, 1]]
    hot = [[float(token == best) for token in range(4)] for best in (0, 2, 1)]
    assert law.draft_probs[0] == hot


def test_a_draw_takes_each_position_from_its_own_law() -> None:
    """If this fails, a draft was drawn by other probabilities than those it is tested with."""
    law = model()
    batch = sampled(gen(10, 5, greedy=False), r=3, v=4, draft=[0.75, 0.25, 0.875])
    assert run(law, batch).next_draft_tokens == [[2, 2, 3]]
    assert law.draft_probs[0] == LAW
