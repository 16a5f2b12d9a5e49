"""Section 3: who owns which slot, from the first batch to the last."""

import pytest
from batches import ctx, gen, make_batch, make_model, serve, small, snapshot
from hypothesis import given
from hypothesis import strategies as st

from draftproof.reference.model import Model
from draftproof.reference.slots import Slots
from draftproof.reference.vocabulary import NEUTRAL_LOGIT, PADDING_ID_BASE, Batch, BatchError

SCRATCH = 3


def owners(model: Model) -> dict[int, int]:
    slots = model.state().slots
    assert slots is not None
    return dict(slots)


def full_house() -> Model:
    """Requests 10, 20, 30 in slots 0, 1, 2."""
    model = make_model(small())
    serve(model, ctx(10, 0, 2), ctx(20, 0, 2, 2), ctx(30, 0, 2, 3))
    assert owners(model) == {10: 0, 20: 1, 30: 2}
    return model


# ---- departures and the queue --------------------------------------------------------------------


def test_departures_go_to_the_end_of_the_queue_in_insertion_order() -> None:
    """If this fails, slots are handed out in another order than the public worker's."""
    model = full_house()
    serve(model, gen(20, 2, 2))
    assert model.state().free_slots == [0, 2]
    serve(model, ctx(50, 0, 1, 5), ctx(40, 0, 1, 4))
    assert owners(model) == {50: 0, 40: 2}
    assert model.state().free_slots == [1]


def test_insertion_order_is_not_batch_order_nor_slot_order() -> None:
    """If this fails, departures are processed in the order of ids, slots or the batch."""
    model = full_house()
    serve(model, ctx(20, 0, 1, 2), ctx(10, 2, 1), ctx(30, 2, 1, 3))  # 20 starts again
    assert owners(model) == {10: 0, 30: 2, 20: 1}
    serve(model)
    assert model.state().free_slots == [0, 2, 1]


def test_the_queue_is_first_in_first_out() -> None:
    """If this fails, the slot given up last is reused first, as by a stack."""
    model = make_model(small())
    serve(model, ctx(10, 0, 1))
    serve(model, ctx(20, 0, 1, 2))
    assert owners(model) == {20: 1}
    assert model.state().free_slots == [2, 0]


def test_an_unscheduled_request_loses_its_slot_like_a_finished_one() -> None:
    """If this fails, a paused request keeps state that the specification clears."""
    model = full_house()
    serve(model, gen(10, 2), gen(20, 2, 2))
    serve(model, gen(30, 2, 3), gen(10, 3), gen(20, 3, 2))
    state = model.state()
    assert owners(model) == {10: 0, 20: 1, 30: 2}
    assert state.valid_len == [4, 4, 1, 0]


def test_unknown_generations_take_slots_in_batch_order() -> None:
    """If this fails, imported requests land in other slots than the public worker's."""
    model = make_model(small())
    model.prepare(make_batch(gen(30, 5), gen(10, 5, 2)))
    assert owners(model) == {30: 0, 10: 1}
    assert model.state().batch_to_slot == [0, 1]


# ---- clearing ------------------------------------------------------------------------------------


def test_a_departure_clears_the_slot_at_once() -> None:
    """If this fails, a free slot still shows the frames of the request that left it."""
    model = full_house()
    model.prepare(make_batch())
    state = model.state()
    assert state.ctx_len == state.valid_len == [0, 0, 0, 0]
    assert state.initialized == [False] * 4
    assert state.windows == [[[]]] * 3


def test_admission_resets_the_confidence_row_but_keeps_the_stamp() -> None:
    """If this fails, a new request is ranked by the confidence of its slot's last owner."""
    model = make_model(small(max_num_requests=1))
    serve(model, gen(10, 5), r=3)
    drafted = model.state()
    assert drafted.confidence_logits[0] != [NEUTRAL_LOGIT] * 3
    assert drafted.confidence_stamp[0] == 1
    serve(model)
    assert model.state().confidence_logits == drafted.confidence_logits  # departures keep both
    serve(model, ctx(20, 0, 2, 2))
    assert model.state().confidence_logits[0] == [NEUTRAL_LOGIT] * 3
    assert model.state().confidence_stamp[0] == 1


def test_a_slot_is_cleared_when_given_up_and_when_given_out() -> None:
    """If this fails, whatever was written to a slot while it was free greets its next owner."""
    told: list[tuple[str, int]] = []
    slots = Slots(
        small(),
        lambda slot: told.append(("clear", slot)),
        lambda slot: told.append(("admit", slot)),
    )
    slots.assign(10, 1, reset=False)
    slots.assign(10, 1, reset=False)
    assert told == [("clear", 0), ("admit", 0)]
    slots.assign(10, 1, reset=True)
    assert told[2:] == [("clear", 0), ("clear", 1), ("admit", 1)]


# ---- reset ---------------------------------------------------------------------------------------


def test_a_reset_moves_the_request_to_the_front_of_the_queue() -> None:
    """If this fails, a recomputed request keeps its slot, where the public worker moves it."""
    model = make_model(small())
    serve(model, ctx(10, 0, 4))
    serve(model, ctx(10, 0, 2), step=1)
    state = model.state()
    assert owners(model) == {10: 1}
    assert state.free_slots == [2, 0]
    assert (state.ctx_len[1], state.valid_len[1]) == (2, 2)
    assert (state.ctx_len[0], state.valid_len[0]) == (0, 0)


def test_a_reset_with_no_other_free_slot_returns_to_its_own_cleared() -> None:
    """If this fails, a reset in a full house is an error, or keeps frames of the first pass."""
    model = full_house()
    serve(model, ctx(20, 0, 1, 2), gen(10, 2), gen(30, 2, 3))
    state = model.state()
    assert owners(model)[20] == 1
    assert (state.ctx_len[1], state.valid_len[1]) == (1, 1)


def test_a_first_chunk_is_still_unknown_in_prepare() -> None:
    """If this fails, a context's slot is taken before its rows are there to be stored."""
    model = make_model(small())
    model.prepare(make_batch(ctx(10, 0, 2), gen(20, 5, 2)))
    assert owners(model) == {20: 0}
    assert model.state().batch_to_slot == [SCRATCH, 0]


def test_before_the_first_forward_no_row_maps_to_a_slot() -> None:
    """If this fails, rows of a first warm-up are taken for slot 0 (section 16, row 1)."""
    assert make_model(small()).state().batch_to_slot == []


# ---- incarnations --------------------------------------------------------------------------------


def test_another_incarnation_under_the_same_id_starts_anew() -> None:
    """If this fails, an id that comes back at once inherits a window (section 16, row 11)."""
    model = make_model(small())
    serve(model, ctx(10, 0, 4, incarnation=1))
    serve(model, gen(10, 9, incarnation=2))
    state = model.state()
    assert owners(model) == {10: 1}
    assert state.free_slots == [2, 0]
    assert (state.ctx_len[1], state.valid_len[1]) == (10, 1)


def test_a_prefix_reusing_chunk_of_another_incarnation_starts_anew() -> None:
    """If this fails, a reused id's first chunk, which does not start at 0, appends to the old."""
    model = make_model(small())
    serve(model, ctx(10, 0, 4, incarnation=1))
    serve(model, ctx(10, 7, 2, incarnation=2))
    state = model.state()
    assert owners(model) == {10: 1}
    assert (state.ctx_len[1], state.valid_len[1]) == (9, 2)


# ---- dummies -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_id", "dummy"),
    [
        (0, True),
        (1, False),
        (PADDING_ID_BASE, True),
        (PADDING_ID_BASE - 3, True),
        (PADDING_ID_BASE - 4, False),
    ],
)
def test_idle_and_padding_ids_never_take_a_slot(request_id: int, dummy: bool) -> None:
    """If this fails, a row that stands for nobody takes a slot, or a real request gets none."""
    for rows in (
        [gen(request_id, 3), gen(request_id, 4)],
        [ctx(request_id, 2, 2), ctx(request_id, 4, 1)],
    ):
        model = make_model(small())
        for row in rows:
            serve(model, row)
        assert (owners(model) == {}) is dummy
        assert (model.state().batch_to_slot == [SCRATCH]) is dummy


def test_padding_rows_may_share_an_id() -> None:
    """If this fails, a batch padded with two rows is refused as naming a request twice."""
    model = make_model(small(max_num_requests=5))
    padding = gen(PADDING_ID_BASE - 2, 2, 0)
    serve(model, ctx(10, 0, 2), ctx(20, 0, 2, 2))
    serve(model, gen(10, 2), gen(20, 2, 2), gen(0, 7, 0), padding, padding, r=2)
    assert model.state().batch_to_slot == [0, 1, 5, 5, 5]


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "sentence"),
    [
        (
            make_batch(*(gen(i, 2, i) for i in (1, 2, 3, 4))),
            "batch of 4 rows, but max_num_requests is 3",
        ),
        (
            make_batch(gen(10, 2), *[gen(PADDING_ID_BASE, 0, 0)] * 3),
            "batch of 4 rows, but max_num_requests is 3",
        ),
        (make_batch(gen(10, 2), gen(10, 2)), "a request id stands twice in the batch"),
        (make_batch(ctx(10, 2, 1), gen(10, 2)), "a request id stands twice in the batch"),
        (
            make_batch(ctx(10, 3, 1)),
            "chunk of request 10 starts at 3, but its last one ended before 2",
        ),
        (
            make_batch(ctx(10, 1, 1)),
            "chunk of request 10 starts at 1, but its last one ended before 2",
        ),
    ],
)
def test_a_refused_batch_changes_nothing(batch: Batch, sentence: str) -> None:
    """If this fails, a batch that cannot be served leaves departures or half a slot map behind."""
    model = full_house()
    before = snapshot(model)
    with pytest.raises(BatchError) as caught:
        model.prepare(batch)
    assert str(caught.value) == sentence
    assert snapshot(model) == before


def test_no_free_slot_is_an_error_that_changes_nothing() -> None:
    """If this fails, a caller who skipped the batch check corrupts the map."""
    touched: list[int] = []
    slots = Slots(small(max_num_requests=1), touched.append, touched.append)
    slots.assign(10, 1, reset=False)
    touched.clear()
    with pytest.raises(BatchError, match=r"^no free slot for request 20$"):
        slots.assign(20, 2, reset=True)
    assert (slots.owned, list(slots.free), touched) == ({10: (0, 1)}, [], [])


# ---- against a re-statement ----------------------------------------------------------------------


class Board:
    """Section 3 said differently: one list of places, and a list of free numbers."""

    def __init__(self, size: int) -> None:
        self.places: list[tuple[int, int, int]] = []  # (id, incarnation, slot), oldest first
        self.queue = list(range(size))

    def leave(self, gone: list[tuple[int, int, int]]) -> None:
        self.queue += [slot for _, _, slot in gone]
        self.places = [place for place in self.places if place not in gone]

    def enter(self, request: int, incarnation: int) -> None:
        if request not in [place[0] for place in self.places]:
            self.places.append((request, incarnation, self.queue.pop(0)))


batches_of_rows = st.lists(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(1, 2), st.sampled_from(["gen", "new", "empty"])),
        max_size=3,
        unique_by=lambda row: row[0],
    ),
    min_size=1,
    max_size=12,
)


@given(batches_of_rows)
def test_the_slot_map_agrees_with_a_board_of_places(
    batches: list[list[tuple[int, int, str]]],
) -> None:
    """If this fails, some sequence of arrivals, departures and resets ends in other slots."""
    model, board = make_model(small()), Board(3)
    for rows in batches:
        contexts = [ctx(i, 0, 2 if kind == "new" else 0, n) for i, n, kind in rows if kind != "gen"]
        generations = [gen(i, 5, n) for i, n, kind in rows if kind == "gen"]
        present = {(i, n) for i, n, _ in rows}
        board.leave([place for place in board.places if place[:2] not in present])
        for row in generations:
            board.enter(row.request_id, row.incarnation)
        for context in contexts:
            if context.length:
                board.leave([p for p in board.places if p[0] == context.request_id])
                board.enter(context.request_id, context.incarnation)
        serve(model, *contexts, *generations)
        assert list(owners(model).items()) == [(i, slot) for i, _, slot in board.places]
        assert model.state().free_slots == board.queue
        assert sorted([*owners(model).values(), *board.queue]) == [0, 1, 2]
