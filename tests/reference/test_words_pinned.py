"""Numbers that the specification names (sections 1 to 3), and what a row is that says nothing."""

from array import array

import pytest
from batches import gen, make_batch, make_model, run, small

from draftproof.reference.sequences import logit_rows
from draftproof.reference.vocabulary import (
    IDLE_ID,
    NO_PENALTIES,
    PADDING_ID_BASE,
    ContextRow,
    GenerationRow,
)


def test_ids_of_dummies() -> None:
    """If this fails, both sides may mean other ids than an engine does."""
    assert (IDLE_ID, PADDING_ID_BASE) == (0, 2**64 - 1)


@pytest.mark.parametrize(
    ("request_id", "slot"),
    [
        (0, 3),
        (1, 0),
        (2**63 - 1, 0),
        (2**64 - 1 - 4, 0),
        (2**64 - 1 - 3, 3),
        (2**64 - 1, 3),
    ],
)
def test_which_ids_take_a_slot(request_id: int, slot: int) -> None:
    """If this fails, padding takes a slot, or a request never gets one (K = 3, three slots)."""
    model = make_model(small())
    run(model, make_batch(gen(request_id, 5), r=3))
    assert model.batch_to_slot == [slot]


def test_a_row_asks_for_nothing_unless_it_says_so() -> None:
    """If this fails, padding rows draw, keep to a grammar, or are told of a prompt."""
    plain = GenerationRow(7, 9, 0, 3)
    assert plain == GenerationRow(7, 9, 0, 3, 0, True, 0, 0, NO_PENALTIES, 0)
    assert (plain.proposed, plain.greedy, plain.seed, plain.grammar, plain.told) == (0, 1, 0, 0, 0)
    chunk = ContextRow(7, 9, 0, 3, 2)
    assert (chunk.greedy, chunk.grammar, chunk.told, chunk.last) == (True, 0, 0, True)
    nothing = NO_PENALTIES
    assert (nothing.repetition, nothing.presence, nothing.frequency) == (1, 0, 0)


def test_logit_rows_are_as_wide_as_the_vocabulary() -> None:
    """If this fails, a token is chosen by the logits of another row."""
    flat = array("f", [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    assert logit_rows(flat, 1, 2, 2) == [[2.0, 3.0], [4.0, 5.0]]
