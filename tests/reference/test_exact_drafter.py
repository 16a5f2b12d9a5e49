"""Sections 8a and 19: the exact drafter, with numbers worked out by hand from the text."""

import pytest
from batches import ctx, gen, make_model, serve, small, tagged
from hypothesis import given
from hypothesis import strategies as st

from draftproof.reference.config import checked
from draftproof.reference.drafter import make_drafter, soft_probs, tag, window_sum
from draftproof.reference.vocabulary import CONFIDENCE_LOGITS, SEAMS


def test_a_row_is_told_by_its_digits() -> None:
    """If this fails, two sides agree on tags only because they share this code.

    Incarnation 130 = 2 + 1 * 128, position 300 = 44 + 2 * 128, step 128 = 0 + 1 * 128, stage 1.
    """
    assert tagged(130, 300, 128, 1) == [2, 1, 44, 2, 0, 1, 1]
    assert tag([2, 1, 44, 2, 0, 1, 1]) == 1 * 2 + 3 * 1 + 5 * 44 + 7 * 2 + 9 * 0 + 11 * 1 + 13 * 1


@pytest.mark.parametrize(("frame", "weight"), [(0, 1), (1, 2), (250, 251), (251, 1), (4016, 1)])
def test_frames_weigh_one_to_251(frame: int, weight: int) -> None:
    """If this fails, a frame's weight is off by one or wraps elsewhere."""
    assert window_sum(frame, [1]) == weight


def test_the_window_sum_wraps_inside_a_window() -> None:
    """If this fails, a window over the 251st frame gives its later frames wrong weights."""
    assert window_sum(249, [1, 10, 100, 1000]) == 250 * 1 + 251 * 10 + 1 * 100 + 2 * 1000
    assert window_sum(5, []) == 0


def test_a_block_by_hand() -> None:
    """If this fails, drafts or confidences differ from the text of section 8a.

    One visible frame, 1, in two stages: rows of incarnation 1, position 0, step 0. Tags 1 and
    1 + 13 = 14, weight 2, so the sum is 2 * 15 = 30; start = 1, bonus = 5, V = 64.
      k = 0: 30 + 31 *  5 + 0 + 1 =  186 = 58 mod 64;  confidence 30 + 13 *  5 + 0 =  95 = 31 mod 64
      k = 1: 30 + 31 * 58 + 7 + 1 = 1836 = 44 mod 64;  confidence 30 + 13 * 58 + 1 = 785 = 17 mod 64
      k = 2: 30 + 31 * 44 + 14 + 1 = 1409 = 1 mod 64;  confidence 30 + 13 * 44 + 2 = 604 = 28 mod 64
    """
    draft = make_drafter(checked(small(num_stages=2)))
    windows = [[tagged(1, 0, stage=stage)] for stage in (0, 1)]
    tokens, confidence = draft(windows, 1, 5)
    assert tokens == [58, 44, 1]
    assert confidence == [(31 - 32) / 8, (17 - 32) / 8, (28 - 32) / 8]


def test_the_table_of_confidences() -> None:
    """If this fails, the table differs from the one of section 19."""
    assert CONFIDENCE_LOGITS[0] == -4.0
    assert CONFIDENCE_LOGITS[32] == 0.0
    assert CONFIDENCE_LOGITS[63] == 31 / 8
    assert len(CONFIDENCE_LOGITS) == len(set(CONFIDENCE_LOGITS)) == 64


def test_the_model_drafts_the_block_by_hand() -> None:
    """If this fails, the model gives the drafter another window, start or bonus than section 8.

    Request of incarnation 1 at position 0, one token kept: the window of the block by hand. Its
    bonus is 1: 30 + 31 + 0 + 1 = 62;  30 + 31 * 62 + 8 = 1960 = 40;  30 + 31 * 40 + 15 = 1285 = 5.
    """
    model = make_model(small(num_stages=2))
    result = serve(model, gen(10, 0), r=3, counts=[1])
    assert result.next_draft_tokens == [[62, 40, 5]]
    assert result.next_new_tokens == [[1, 62, 40, 5]]
    logits = [(30 + 13 + 0) % 64, (30 + 13 * 62 + 1) % 64, (30 + 13 * 40 + 2) % 64]
    assert model.state().confidence_logits[0] == [(i - 32) / 8 for i in logits]
    assert model.state().confidence_stamp[0] == 1


def test_outputs_are_cut_to_r_but_the_whole_block_is_drafted() -> None:
    """If this fails, a shorter step drafts other tokens, or keeps confidences of an older block."""
    full, short = make_model(small()), make_model(small())
    whole = serve(full, gen(10, 4), r=3).next_draft_tokens[0]
    assert serve(short, gen(10, 4), r=2).next_draft_tokens[0] == whole[:2]
    assert short.state().confidence_logits == full.state().confidence_logits


steps = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=6)


@given(window=st.integers(1, 6), stages=st.integers(1, 3), prompt=st.integers(0, 9), steps=steps)
def test_the_lent_drafter_is_the_models_own(
    window: int, stages: int, prompt: int, steps: list[tuple[int, int]]
) -> None:
    """If this fails, a worker that uses the lent drafter is told it drafts wrongly."""
    config = checked(small(window_size=window, num_stages=stages))
    model, draft, position = make_model(config), make_drafter(config), prompt
    if prompt:
        serve(model, ctx(10, 0, prompt))
    for step, (r, kept) in enumerate(steps):
        count = min(kept, 1 + r)
        result = serve(model, gen(10, position), r=r, counts=[count], step=step)
        state, bonus = model.state(), result.next_new_tokens[0][0]
        tokens, confidence = draft(state.windows[0], state.ctx_len[0], bonus)
        assert result.next_draft_tokens == [tokens[:r]]
        assert state.confidence_logits[0] == confidence
        position += count


@pytest.mark.parametrize(
    ("token", "size", "probs"),
    [
        (1, 6, [0.0, 0.5, 0.25, 0.125, 0.125, 0.0]),
        (4, 6, [0.125, 0.125, 0.0, 0.0, 0.5, 0.25]),
        (0, 3, [0.625, 0.25, 0.125]),
        (1, 2, [0.375, 0.625]),
    ],
)
def test_soft_probabilities_wrap_and_add_up(token: int, size: int, probs: list[float]) -> None:
    """If this fails, p is not the distribution that section 19 draws from."""
    assert soft_probs(token, size) == probs


def test_the_seams_are_the_published_ones() -> None:
    """If this fails, faults written for a seam by name are injected nowhere."""
    assert SEAMS == ("accept", "seed", "draft", "publish")
