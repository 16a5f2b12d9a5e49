"""Sections 4, 9, 15 and 19: a whole step of the model, and what it leaves behind."""

from array import array
from collections.abc import Callable
from dataclasses import replace

import pytest
from batches import Row, ctx, gen, make_batch, make_model, run, sampled, serve, small, snapshot
from hypothesis import given
from hypothesis import strategies as st

from draftproof.reference.model import Model, make
from draftproof.reference.vocabulary import SEAMS, BatchError, Collaborators, Mode


class Boom(Exception):
    """An injected fault."""


def raising_at(seam: str, armed: list[str]) -> Callable[[str], None]:
    def at(name: str) -> None:
        if name == seam and armed:
            raise Boom(name)

    return at


# ---- the order of a step -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["eager", "replay", "warmup", "capture"])
@pytest.mark.parametrize("r", [0, 3])
def test_every_forward_passes_the_seams_in_order(mode: Mode, r: int) -> None:
    """If this fails, a fault aimed at one phase hits another, or none in some kind of step."""
    passed: list[str] = []
    model = make_model(small(), passed.append)
    batch = make_batch(ctx(10, 0, 2), gen(20, 5, 2), r=r, mode=mode)
    model.prepare(batch)
    assert passed == ["assign"]
    passed.clear()
    model.forward(batch)
    drafting = ["stage", "sample"] if r else []
    assert passed == ["accept", "seed", "draft", *drafting, "drafted", "publish", "cleanup"]
    assert set(SEAMS) < set(passed)


@pytest.mark.parametrize(
    ("seam", "slots", "frames"),
    [
        ("accept", {20: 0}, [0, 0, 0]),
        ("seed", {20: 0}, [0, 0, 0]),
        ("draft", {20: 0, 10: 1}, [0, 2, 0]),
        ("publish", {20: 0, 10: 1}, [2, 2, 0]),
    ],
)
def test_a_failed_step_leaves_the_slot_map_as_seeding_left_it(
    seam: str, slots: dict[int, int], frames: list[int]
) -> None:
    """If this fails, a phase runs before its seam, or a failure undoes what must stand."""
    model = make_model(small(), raising_at(seam, ["armed"]))
    with pytest.raises(Boom):
        serve(model, ctx(10, 0, 2), gen(20, 5, 2), r=3, counts=[2])
    assert model.state().slots == slots
    assert model.state().valid_len[:3] == frames


@pytest.mark.parametrize("seam", SEAMS)
def test_after_a_failed_step_the_worker_is_as_new_for_everybody_later(seam: str) -> None:
    """If this fails, something of failed requests reaches a later one (section 16, row 6)."""
    armed = ["armed"]
    model, fresh = make_model(small(), raising_at(seam, armed)), make_model(small())
    with pytest.raises(Boom):
        serve(model, ctx(10, 0, 2), gen(20, 5, 2), r=3, counts=[2])
    armed.clear()
    steps: list[list[Row]] = [[ctx(30, 0, 4, 3)], [gen(30, 4, 3), gen(40, 9, 4)]]
    for rows in steps:
        got, wanted = serve(model, *rows, r=3), serve(fresh, *rows, r=3)
        assert got == wanted
    for request in (30, 40):
        here, there = (worker.slots.owned[request][0] for worker in (model, fresh))
        for name in ("ctx_len", "valid_len", "initialized", "windows", "confidence_logits"):
            assert getattr(model.state(), name)[here] == getattr(fresh.state(), name)[there]


# ---- what leaves nothing behind ------------------------------------------------------------------


def busy_model(at: Callable[[str], None] = lambda seam: None) -> Model:
    """Two requests, one of them with drafts and probabilities."""
    model = make_model(small(use_rejection_sampling=True, vocab_size=8), at)
    run(model, make_batch(ctx(10, 0, 5), r=3))
    run(model, sampled(gen(10, 5, greedy=False), ctx(20, 0, 2, 2, seq_slot=1), r=3))
    return model


@pytest.mark.parametrize("mode", ["warmup", "capture"])
@pytest.mark.parametrize("r", [0, 3])
@pytest.mark.parametrize("fails_at", [*SEAMS, None])
def test_a_warm_up_leaves_every_field_unchanged(mode: Mode, r: int, fails_at: str | None) -> None:
    """If this fails, a warm-up or a capture is undone in part only, or not after an exception.

    Section 16, row 5. Both requests depart in the warm-up's batch and unknown ones arrive.
    """
    armed: list[str] = []
    model = busy_model(raising_at(fails_at or "", armed))
    before = snapshot(model)
    armed.append("armed")
    rows: list[Row] = [ctx(30, 0, 3, 3), gen(40, 7, 4, greedy=False, seq_slot=2)]
    for batch in (make_batch(*rows, r=r, mode=mode), sampled(*rows, r=r, mode=mode)):
        model.prepare(batch)
        assert snapshot(model) == before
        if fails_at:
            with pytest.raises(Boom):
                model.forward(batch)
        else:
            model.forward(batch)
        assert snapshot(model) == before


def test_missing_hidden_rows_are_an_error_before_anything_is_done() -> None:
    """If this fails, a step without captured rows mislabels later frames (section 16, row 7)."""
    passed: list[str] = []
    model = busy_model(passed.append)
    batch = replace(make_batch(gen(10, 6), ctx(20, 2, 1, 2), r=3), hidden=None)
    model.prepare(batch)
    before = snapshot(model)
    passed.clear()
    with pytest.raises(BatchError, match=r"^hidden: 0 numbers, but 35 belong to the step$"):
        model.forward(batch)
    assert snapshot(model) == before
    assert passed == ["cleanup"]


# ---- results -------------------------------------------------------------------------------------


def test_the_four_outputs_of_a_mixed_step() -> None:
    """If this fails, rows of the outputs are misaligned, or contexts propose drafts."""
    model = make_model(small())
    result = serve(model, ctx(10, 0, 2), gen(20, 5, 2), gen(30, 6, 3), r=2, counts=[3, 1])
    assert result.new_tokens == [[1], [0, 0, 1], [1]]
    assert result.new_tokens_lens == [1, 3, 1]
    assert result.next_draft_tokens[0] == [0, 0]
    assert [len(block) for block in result.next_draft_tokens] == [2, 2, 2]
    assert result.next_new_tokens == [[1, *block] for block in result.next_draft_tokens]


def test_a_zero_draft_step_proposes_nothing() -> None:
    """If this fails, a step with r = 0 has outputs of another shape than [B, 0] and [B, 1]."""
    result = serve(make_model(small()), ctx(10, 0, 2), gen(20, 5, 2), r=0)
    assert result.new_tokens == [[1], [1]]
    assert result.new_tokens_lens == [1, 1]
    assert result.next_draft_tokens == [[], []]
    assert result.next_new_tokens == [[1], [1]]
    assert result.window_source == "uniform"


def test_an_empty_batch_is_a_step() -> None:
    """If this fails, a step in which everybody has left does not run its departures."""
    model = make_model(small())
    serve(model, ctx(10, 0, 2))
    result = serve(model, r=3)
    assert (result.new_tokens, result.next_draft_tokens) == ([], [])
    assert model.state().slots == {}
    assert model.state().draft_seq == 2


def test_exactly_one_window_source_is_published() -> None:
    """If this fails, the next step reads its verify windows from the wrong place."""
    model = make_model(small(confidence_scheduling=True))
    assert serve(model, gen(10, 4), r=3).window_source == "uniform"
    assert serve(model, gen(10, 5), r=3, verify_lens=(2,)).window_source == "windows"
    mixed = serve(model, gen(10, 6), ctx(20, 0, 1, 2), r=3, verify_lens=(2,))
    assert mixed.window_source == "snapshot"


def test_a_ragged_step_is_decided_window_by_window() -> None:
    """If this fails, the packed logits of a ragged batch are cut at uniform offsets. [T]"""
    batch = replace(
        make_batch(gen(10, 4), gen(20, 4, 2), r=3, verify_lens=(2, 4)),
        drafts=array("q", [1, 9, 9, 2, 3, 4]),
        target_tokens=array("q", [1, 100, 2, 8, 4, 101]),
    )
    result = run(make_model(small(vocab_size=128)), batch)
    assert result.new_tokens_lens == [2, 2]
    assert result.new_tokens == [[1, 100], [2, 8]]


def test_full_windows_are_the_uniform_path() -> None:
    """If this fails, a ragged step whose windows are all full differs from a uniform one."""
    rows = [gen(10, 4), gen(20, 8, 2)]
    one, other = make_model(small()), make_model(small())
    uniform = serve(one, *rows, r=3, counts=[2, 4])
    ragged = serve(other, *rows, r=3, counts=[2, 4], verify_lens=(4, 4))
    assert replace(ragged, window_source="uniform") == uniform
    assert snapshot(one) == snapshot(other)


def test_stamps_tell_which_forward_wrote_a_row() -> None:
    """If this fails, a stale confidence row passes for a fresh one (section 14)."""
    model = make_model(small())
    for step, r in enumerate([3, 0, 2]):
        serve(model, gen(10, 4 + step), r=r)
    assert model.state().draft_seq == 3
    assert model.state().confidence_stamp == [3, 0, 0, 0, 0]
    serve(model, gen(10, 7), r=0)
    assert model.state().confidence_stamp == [3, 0, 0, 0, 0]
    assert model.state().draft_seq == 4


def test_confidences_of_scratch_and_neutral_rows_stay_neutral() -> None:
    """If this fails, an idle row's draft is written where unknown requests are looked up."""
    model = make_model(small())
    serve(model, gen(0, 4, 0), gen(10, 3), r=3)
    assert model.state().confidence_logits[3:] == [[30.0] * 3] * 2


# ---- zero-draft steps ----------------------------------------------------------------------------

Mixed = list[tuple[int, int]]

mixed_lengths = st.lists(
    st.integers(0, 3).flatmap(lambda r: st.tuples(st.just(r), st.integers(1, 1 + r))),
    min_size=1,
    max_size=12,
)


@given(window=st.integers(1, 8), prompt=st.integers(0, 9), steps=mixed_lengths)
def test_any_mix_of_lengths_leaves_what_constant_length_leaves(
    window: int, prompt: int, steps: Mixed
) -> None:
    """If this fails, a zero-draft step, or a change of length, leaves a gap or a shift behind.

    The same tokens are decoded by steps of changing r and by steps of r = K; and one by one.
    """
    total = sum(count for _, count in steps)
    constant = [(3, min(4, total - done)) for done in range(0, total, 4)]
    states = []
    for run_of_steps in (steps, constant, [(0, 1)] * total):
        model, position = make_model(small(window_size=window)), prompt
        if prompt:
            serve(model, ctx(10, 0, prompt))
        for r, count in run_of_steps:
            serve(model, gen(10, position), r=r, counts=[count])  # no step numbers in the rows
            position += count
        state = model.state()
        states.append((state.ctx_len, state.valid_len, state.initialized, state.windows))
    assert states[0] == states[1] == states[2]


def test_a_zero_draft_step_advances_generations_of_a_mixed_batch() -> None:
    """If this fails, windows stop following the target while nothing is drafted."""
    model = make_model(small())
    serve(model, gen(10, 4), gen(20, 8, 2), r=0)
    serve(model, ctx(30, 0, 3, 3), gen(10, 5), gen(20, 9, 2), r=0)
    state = model.state()
    assert (state.ctx_len[:3], state.valid_len[:3]) == ([6, 10, 3], [2, 2, 3])
    assert [row[2] for row in state.windows[1][0]] == [8, 9]


# ---- the door ------------------------------------------------------------------------------------


def test_the_factory_takes_no_options() -> None:
    """If this fails, a mistyped option of the model is swallowed."""
    lent = Collaborators(at=lambda seam: None, drafter=lambda *_: ([], []))
    assert isinstance(make(small(), "cpu", lent), Model)
    with pytest.raises(ValueError, match=r"takes no options, but got \['fast'\]"):
        make(small(), "cpu", lent, fast=True)
