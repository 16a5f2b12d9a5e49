"""Flat buffers of a batch."""

from array import array
from math import isnan

from batches import gen, make_batch, small

from draftproof.reference.vocabulary import Batch
from draftproof.sim.assembly import Rows, assemble
from draftproof.sim.packing import before_target, hidden_rows, isolated, poison

BUFFERS = (
    "drafts", "target_tokens", "hidden", "target_probs",
    "accept_uniforms", "recover_uniforms", "draft_uniforms",
)  # fmt: skip


def sampled_batch() -> Batch:
    """A batch in which every buffer is there."""
    rows = Rows(
        step=4,
        mode="eager",
        draft_len=2,
        contexts=(),
        generations=(gen(1, 9, greedy=False),),
        tokens=([5, 6, 7],),
        accepts=(1,),
        windows=None,
    )
    return assemble(small(use_rejection_sampling=True), rows)


def test_hidden_rows_name_their_origin_in_digits_of_128() -> None:
    """If this fails, a misplaced row can no longer be recognised."""
    rows = hidden_rows([(5, 127, 2), (9, 4, 0), (300, 128 * 128 - 1, 2)], step=129)
    assert [rows[i : i + 7].tolist() for i in range(0, len(rows), 7)] == [
        [5, 0, 127, 0, 1, 1, 0],
        [5, 0, 0, 1, 1, 1, 0],
        [44, 2, 127, 127, 1, 1, 0],
        [44, 2, 0, 0, 1, 1, 0],
    ]


def test_an_isolated_batch_is_equal_but_shares_no_buffer() -> None:
    """If this fails, a worker that writes into its batch changes the model's, or the journal's."""
    batch = sampled_batch()
    own = isolated(batch)
    assert own == batch
    for name in BUFFERS:
        buffer = getattr(own, name)
        assert isinstance(buffer, array)
        assert buffer is not getattr(batch, name)
        assert len(buffer) > 0


def test_poison_overwrites_every_number_of_every_buffer_and_nobody_elses() -> None:
    """If this fails, a worker that keeps a buffer beyond its step goes unnoticed."""
    batch = sampled_batch()
    own = isolated(batch)
    poison(own)
    assert set(own.drafts) == set(own.target_tokens) == {2**62}
    assert set(own.hidden or ()) == {-128}
    for name in BUFFERS[3:]:
        assert all(map(isnan, getattr(own, name)))
    assert batch == sampled_batch()


def test_before_the_target_has_run_nothing_is_known_of_its_answer() -> None:
    """If this fails, a worker can look at the target's tokens before it has asked for them."""
    known = before_target(sampled_batch())
    assert known.target_tokens == array("q")
    assert (known.hidden, known.target_probs, known.target_logits) == (None, None, None)
    assert known.drafts == sampled_batch().drafts


def test_buffers_that_are_not_there_stay_away() -> None:
    """If this fails, batches without rejection sampling cannot be isolated or poisoned."""
    own = isolated(make_batch(gen(1, 4), r=1, hidden=None))
    poison(own)
    assert own.hidden is None
    assert own.target_probs is None
    assert own.drafts.tolist() == [2**62]
