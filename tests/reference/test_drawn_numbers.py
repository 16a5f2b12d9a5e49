"""Section 6 by hand: numbers that a request draws itself, and drafts over a narrower vocabulary."""

from array import array
from dataclasses import replace

import pytest
from batches import gen, make_model, run, sampled, small

from draftproof.reference import numbers
from draftproof.reference.acceptance import one_hot
from draftproof.reference.philox import Words, philox, uniform
from draftproof.reference.vocabulary import PURPOSES, Batch

ONES = 0xFFFFFFFF
DRAFT, ACCEPT, RECOVER = (PURPOSES.index(name) for name in ("draft", "accept", "recover"))
SEED = 5 << 40 | 9


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [  # known answers that come with Random123
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)  # fmt: skip
def test_the_generator_is_the_published_one(
    counter: Words, key: tuple[int, int], words: Words
) -> None:
    """If this fails, nobody else can draw the same numbers."""
    assert philox(counter, key) == words


def test_a_number_is_made_of_the_first_word() -> None:
    """If this fails, numbers are not in (0, 1], or not those of seed, request and position."""
    assert uniform(0, 0, 0, 0) == ((0x6627E8D5 >> 8) + 1) / 2**24
    word = philox((3, 2**32 - 1, 2, 0), (9, 5 << 8))[0]
    assert uniform(SEED, 2**32 + 3, 2**33 - 1, 2) == ((word >> 8) + 1) / 2**24


def drawn() -> Batch:
    """Two requests that draw for themselves; r = 3."""
    rows = [gen(10, 6, 1, greedy=False, seed=1), gen(20, 40, 2, greedy=False, seed=SEED)]
    batch = sampled(*rows, r=3)
    return replace(batch, accept_uniforms=None, recover_uniforms=None, draft_uniforms=None)


def test_each_draft_is_tested_with_the_number_of_its_position() -> None:
    """If this fails, a draft and what replaces it meet numbers of other positions (section 6)."""
    own = [uniform(SEED, 2, position, ACCEPT) for position in (41, 42, 43)]
    assert numbers.accept_uniforms(drawn(), 1) == own
    for accepted in range(4):
        wanted = uniform(SEED, 2, 41 + accepted, RECOVER)
        assert numbers.recover_uniform(drawn(), 1, accepted) == wanted


def test_a_block_is_drawn_with_the_numbers_behind_its_bonus() -> None:
    """If this fails, two drafts of a request are drawn with the same number."""
    own = [uniform(SEED, 2, position, DRAFT) for position in (43, 44, 45)]
    assert numbers.draft_uniforms(drawn(), 1, 2, 3) == own


def test_numbers_that_a_batch_brings_are_taken_row_by_row() -> None:
    """If this fails, requests draw with one another's numbers."""
    batch = sampled(gen(10, 0), gen(20, 0), r=3, draft=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    batch = replace(
        batch, accept_uniforms=batch.draft_uniforms, recover_uniforms=array("f", [0.1, 0.2])
    )
    for g, own in enumerate(([0.1, 0.2, 0.3], [0.4, 0.5, 0.6])):
        assert numbers.accept_uniforms(batch, g) == pytest.approx(own)
        assert numbers.draft_uniforms(batch, g, 1, 3) == pytest.approx(own)
        assert numbers.recover_uniform(batch, g, 2) == pytest.approx((0.1, 0.2)[g])


def test_a_block_over_a_narrower_vocabulary_by_hand() -> None:
    """If this fails, draft tokens are taken for the target's, or tested against p of others.

    Draft tokens 0 .. 4 stand for 5, 2, 0, 3, 4. The first placeholder is accepted, the second
    rejected for the bonus 1. Two rows: tags 1 and 6, frames 1 and 2, sum 2 + 18 = 20; start 2.
      k = 0: 20 + 31 * 1 + 0 + 2 = 53 = 3 mod 5;  u = 1/2 takes 3
      k = 1: 20 + 31 * 3 + 7 + 2 = 122 = 2;  u = 1/4 takes 2, which stands for 0
      k = 2: 20 + 31 * 2 + 14 + 2 = 98 = 3;  u = 1 takes the last token with mass, 4
    """
    config = small(use_rejection_sampling=True, vocab_size=8, d2t=(5, 2, 0, 3, 4))
    model, row = make_model(config), gen(10, 0, greedy=False, seq_slot=2)
    q = [one_hot(0, 8), one_hot(1, 8), one_hot(1, 8), one_hot(1, 8)]
    result = run(model, sampled(row, r=3, q=q, draft=[0.5, 0.25, 1.0]))
    assert result.new_tokens == [[0, 1]]
    assert result.next_draft_tokens == [[3, 0, 4]]
    probs = model.state().draft_probs
    assert probs is not None
    assert probs[2] == [
        [0.0, 0.0, 0.125, 0.5, 0.25, 0.125, 0.0, 0.0],
        [0.5, 0.0, 0.0, 0.25, 0.125, 0.125, 0.0, 0.0],
        [0.0, 0.0, 0.125, 0.5, 0.25, 0.125, 0.0, 0.0],
    ]
