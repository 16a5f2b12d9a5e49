"""Sections 5 and 7: which hidden rows a request's window shows, and at which frame."""

from collections.abc import Iterable

import pytest
from batches import ctx, gen, make_batch, make_model, run, serve, small, tagged
from hypothesis import given
from hypothesis import strategies as st

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Frames
from draftproof.reference.window import Captured, Window


def shown(model: Model, slot: int = 0, stage: int = 0) -> dict[int, list[int]]:
    """Visible frame -> hidden row."""
    state = model.state()
    last, valid = state.ctx_len[slot], state.valid_len[slot]
    assert len(state.windows[slot][stage]) == valid
    return dict(zip(range(last - valid + 1, last + 1), state.windows[slot][stage], strict=True))


def rows_of(positions: Iterable[int], step: int = 0, stage: int = 0) -> dict[int, list[int]]:
    """What a window shows if it holds the rows of these positions: position p at frame p + 1."""
    return {p + 1: tagged(1, p, step, stage) for p in positions}


# ---- contexts ------------------------------------------------------------------------------------


def test_chunks_append() -> None:
    """If this fails, a later chunk is placed at chunk-local positions. [T] of section 5."""
    model = make_model(small())
    serve(model, ctx(10, 0, 3))
    assert shown(model) == rows_of([0, 1, 2])
    serve(model, ctx(10, 3, 2))
    assert shown(model) == rows_of([0, 1, 2, 3, 4])
    state = model.state()
    assert (state.ctx_len[0], state.valid_len[0], state.initialized[0]) == (5, 5, True)


def test_a_chunk_longer_than_the_window_leaves_its_newest_rows() -> None:
    """If this fails, a long prompt overwrites its own newest rows, or is cut at the wrong end."""
    model = make_model(small(window_size=4))
    serve(model, ctx(10, 0, 11))
    assert shown(model) == rows_of([7, 8, 9, 10])


def test_a_prompt_of_one_token_at_position_0() -> None:
    """If this fails, position 0 is off by one, or taken for an uninitialised row."""
    model = make_model(small())
    serve(model, ctx(10, 0, 1))
    assert shown(model) == rows_of([0])
    serve(model, gen(10, 1), r=3, counts=[2])
    assert shown(model) == rows_of([0, 1, 2])


def test_prefix_reuse_shows_only_what_was_fed() -> None:
    """If this fails, frames of a reused prefix, which nobody stored, look visible."""
    model = make_model(small())
    serve(model, ctx(10, 6, 2))
    assert shown(model) == rows_of([6, 7])
    assert model.state().ctx_len[0] == 8


def test_each_context_reads_its_own_rows() -> None:
    """If this fails, the second prompt of a batch is stored with the first one's rows."""
    model = make_model(small())
    serve(model, ctx(10, 0, 3), ctx(20, 0, 0, 2), ctx(30, 4, 2, 3))
    assert shown(model, 0) == rows_of([0, 1, 2])
    assert list(shown(model, 1).values()) == [tagged(3, 4), tagged(3, 5)]


def test_an_empty_chunk_does_nothing() -> None:
    """If this fails, a context of length 0 takes a slot or resets a request."""
    model = make_model(small())
    serve(model, ctx(10, 0, 0))
    assert model.state().slots == {}
    serve(model, ctx(10, 0, 2))
    serve(model, ctx(10, 0, 0))
    assert shown(model) == rows_of([0, 1])


# ---- generations ---------------------------------------------------------------------------------


def test_fresh_generations_start_at_their_input_position() -> None:
    """If this fails, an imported request sees frames before its first. [T] of section 7."""
    model = make_model(small())
    serve(model, gen(10, 4016), gen(20, 87, 2), r=3, counts=[1, 1])
    state = model.state()
    assert (state.ctx_len[:2], state.valid_len[:2]) == ([4017, 88], [1, 1])
    serve(model, gen(10, 5), gen(20, 6, 2), r=3, counts=[2, 3])  # any positions
    state = model.state()
    assert (state.ctx_len[:2], state.valid_len[:2]) == ([4019, 91], [3, 4])


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_exactly_the_accepted_rows_are_stored(count: int) -> None:
    """If this fails, an accepted row is dropped or the row of a rejected draft is kept."""
    model = make_model(small())
    serve(model, ctx(10, 0, 2))
    serve(model, gen(10, 2), r=3, counts=[count], step=1)
    assert shown(model) == rows_of([0, 1]) | rows_of(range(2, 2 + count), step=1)


def test_each_generation_reads_its_own_rows_after_the_contexts() -> None:
    """If this fails, generations of a mixed batch store the rows of contexts or neighbours."""
    model = make_model(small(vocab_size=64))
    serve(model, ctx(20, 0, 5, 2), gen(10, 7), gen(30, 9, 3), r=2, counts=[2, 3])
    assert shown(model, 0) == rows_of([7, 8])
    assert list(shown(model, 1).values()) == [tagged(3, p) for p in (9, 10, 11)]
    assert list(shown(model, 2).values()) == [tagged(2, p) for p in range(5)]


def test_ragged_rows_are_found_by_prefix_sums() -> None:
    """If this fails, a ragged batch stores rows at uniform offsets."""
    model = make_model(small())
    context = ctx(30, 0, 2, 3)
    serve(model, context, gen(10, 7), gen(20, 9, 2), r=3, verify_lens=(1, 4), counts=[1, 3])
    assert shown(model, 0) == rows_of([7])
    assert list(shown(model, 1).values()) == [tagged(2, p) for p in (9, 10, 11)]


def test_a_window_of_one_shows_the_newest_row() -> None:
    """If this fails, W = 1 keeps an interim row instead of the last accepted one."""
    model = make_model(small(window_size=1))
    serve(model, ctx(10, 0, 3))
    assert shown(model) == rows_of([2])
    serve(model, gen(10, 3), r=3, counts=[3])
    assert shown(model) == rows_of([5])


@pytest.mark.parametrize("window", [1, 2, 3])
def test_more_accepted_than_the_window_holds(window: int) -> None:
    """If this fails, n > W keeps the oldest rows: the newest must win (section 16, row 3)."""
    model = make_model(small(window_size=window))
    serve(model, gen(10, 5), r=3, counts=[4])
    assert shown(model) == rows_of([5, 6, 7, 8][-window:])
    assert model.state().ctx_len[0] == 9


def test_a_window_smaller_than_the_block_keeps_what_a_rejected_row_would_overwrite() -> None:
    """If this fails, a masked interim column undoes a real write at W < K (section 16, row 3)."""
    model = make_model(small(window_size=2))
    serve(model, ctx(10, 0, 2))
    serve(model, gen(10, 2), r=3, counts=[1], step=1)
    assert shown(model) == rows_of([1]) | rows_of([2], step=1)


def test_the_oldest_frames_fall_out_one_by_one() -> None:
    """If this fails, valid_len passes W or a full window forgets too much."""
    model = make_model(small(window_size=4))
    serve(model, ctx(10, 0, 3))
    serve(model, gen(10, 3), r=3, counts=[3])
    assert shown(model) == rows_of([2, 3, 4, 5])
    assert model.state().valid_len[0] == 4


def test_every_stage_holds_its_own_rows() -> None:
    """If this fails, stages share a window, so that a mix-up between them cannot be seen."""
    model = make_model(small(num_stages=3))
    serve(model, ctx(10, 0, 2))
    for stage in range(3):
        assert shown(model, stage=stage) == rows_of([0, 1], stage=stage)


def test_the_scratch_row_never_grows() -> None:
    """If this fails, padding rows move the scratch row's position for ever (section 16, row 2)."""
    model = make_model(small())
    for _ in range(5):
        serve(model, gen(0, 9, 0), r=3, counts=[4])
    state = model.state()
    assert (state.ctx_len[3], state.valid_len[3]) <= (4, 4)


def test_a_state_once_read_does_not_change() -> None:
    """If this fails, a state that the harness keeps is rewritten by a later step."""
    model = make_model(small())
    serve(model, ctx(10, 0, 2))
    kept = shown(model)
    before = model.state()
    serve(model, gen(10, 2), r=3, counts=[3])
    serve(model, ctx(20, 0, 2, 2))
    assert kept == rows_of([0, 1])
    assert (before.ctx_len[0], before.valid_len[0]) == (2, 2)
    assert before.slots == {10: 0}


def test_clearing_makes_a_window_as_new() -> None:
    """If this fails, a cleared window is still initialised, or shows rows."""
    window = Window(4, 2)
    window.append(Captured.of(Frames(bytes(tagged(1, 7))), 2), 0, 1, 8)
    window.clear()
    fresh = Window(4, 2)
    for name in Window.__slots__:
        assert getattr(window, name) == getattr(fresh, name)


# ---- against a re-statement ----------------------------------------------------------------------

steps_of_a_request = st.lists(st.tuples(st.booleans(), st.integers(1, 12)), min_size=1, max_size=15)


@given(window=st.integers(1, 9), start=st.integers(0, 300), steps=steps_of_a_request)
def test_a_window_is_the_last_w_of_all_frames_ever_fed(
    window: int, start: int, steps: list[tuple[bool, int]]
) -> None:
    """If this fails, some mix of chunks and decoding shows other rows than the last W fed.

    The re-statement keeps every row ever fed, by frame, and forgets nothing.
    """
    model, position = make_model(small(window_size=window)), start
    fed: dict[int, list[int]] = {}
    for step, (chunk, size) in enumerate(steps):
        if chunk:
            run(model, make_batch(ctx(10, position, size), step=step))
        else:
            size = min(size, 4)
            run(model, make_batch(gen(10, position), r=3, counts=[size], step=step))
        fed |= rows_of(range(position, position + size), step)
        position += size
    assert shown(model) == dict(list(fed.items())[-window:])
    assert model.state().ctx_len[0] == position
