"""Rejection sampling with given numbers, on examples worked out by hand (semantics, section 6).

Every example is one of eager and Triton.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from kernels.twins import REJECT

from draftproof.gpu.rejection import Sampling, draw

NAN = float("nan")
FLAT = [0.25, 0.25, 0.25, 0.25]


both = pytest.mark.parametrize("kernels", REJECT)
pytestmark = pytest.mark.interpreted


def one_row(
    kernels: str,
    drafts: Sequence[int],
    p: Sequence[Sequence[float]],
    q: Sequence[Sequence[float]],
    accept: Sequence[float],
    recover: float = 0.5,
    proposed: int | None = None,
    window: int | None = None,
) -> list[int]:
    """The tokens that one generation gets."""
    r = len(drafts)
    sampling = Sampling(
        target_probs=torch.tensor([q]),
        proposed=torch.tensor([r if proposed is None else proposed]),
        greedy=torch.tensor([False]),
        accept_uniforms=torch.tensor([accept], dtype=torch.float32),
        recover_uniforms=torch.full((1, r + 1), recover),
        draft_uniforms=torch.empty(1, r + 1, len(p)),
    )
    windows = None if window is None else torch.tensor([window])
    row = torch.tensor([drafts], dtype=torch.int64)
    tokens, counts = REJECT[kernels](row, torch.tensor([p]), sampling, windows)
    assert tokens.shape == (1, r + 1)
    assert not tokens[0, counts[0] :].any()
    kept: list[int] = tokens[0, : counts[0]].tolist()
    return kept


@both
@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param(0.25, [0, 3], id="u*p < q"),
        pytest.param(0.5, [2], id="u*p = q exactly"),
        pytest.param(1.0, [2], id="u*p > q"),
    ],
)
def test_a_draft_is_accepted_iff_up_is_below_q(
    kernels: str, accept: float, expected: list[int]
) -> None:
    """If this fails, the boundary of the test is off, and so is the output's law."""
    p, q = [[0.5, 0.25, 0.25, 0]], [[0.25, 0.25, 0.5, 0], [0, 0, 0, 1.0]]
    assert one_row(kernels, [0], p, q, [accept]) == expected


@both
def test_a_token_that_neither_can_produce_is_rejected(kernels: str) -> None:
    """If this fails, u * 0 < 0 passes, and a planted token is emitted."""
    p, q = [[0.5, 0.5, 0, 0]], [[0, 0.5, 0.5, 0], FLAT]
    assert one_row(kernels, [3], p, q, [0.25]) == [2]


@both
def test_the_recovery_draw_is_over_the_unnormalised_residual(kernels: str) -> None:
    """If this fails, the draw normalises, or compares with >= instead of >."""
    p, q = [[0.5, 0.5, 0, 0]], [[0, 0.25, 0.25, 0.5], FLAT]  # residual 0, 0, 1/4, 1/2
    drawn = {u: one_row(kernels, [0], p, q, [1.0], recover=u) for u in (0.25, 0.3125, 0.375, 1.0)}
    assert drawn == {0.25: [2], 0.3125: [2], 0.375: [3], 1.0: [3]}


def test_running_sum_equal_to_the_threshold_goes_on() -> None:
    """If this fails, an index is taken whose running sum does not exceed u times the total."""
    mass = torch.tensor([[0.25, 0.25, 0.5]])
    drawn = [int(draw(mass, torch.tensor([u]), mass)) for u in (0.125, 0.25, 0.5, 0.75, 1.0)]
    assert drawn == [0, 1, 2, 2, 2]


def test_the_fallbacks() -> None:
    """If this fails, u = 1 or an empty residual draws a token that has no mass."""
    mass = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    instead = torch.tensor([[0.0, 0.0, 0.0, 1.0], [0.5, 0.0, 0.5, 0.0]])
    assert draw(mass, torch.tensor([1.0, 0.5]), instead).tolist() == [1, 2]


@both
def test_no_residual_mass_at_all(kernels: str) -> None:
    """If this fails, p = q leaves nothing to draw from and an arbitrary token comes out."""
    p, q = [[0.5, 0.5, 0, 0]], [[0.5, 0.5, 0, 0], FLAT]
    assert one_row(kernels, [0], p, q, [1.0]) == [1]


@both
def test_everything_accepted_draws_from_q_alone(kernels: str) -> None:
    """If this fails, the bonus is drawn from a residual or from a stale p row."""
    p, q = [FLAT, FLAT, [0, 0, 0, NAN]], [FLAT, FLAT, [0.5, 0, 0, 0.5]]
    assert one_row(kernels, [1, 2], p, q, [0.5, 0.5], recover=0.5) == [1, 2, 3]
    assert one_row(kernels, [1, 2], p, q, [0.5, 0.5], recover=0.25) == [1, 2, 0]


@both
def test_placeholders_are_tested_against_a_one_hot_row(kernels: str) -> None:
    """If this fails, a placeholder is tested against the probabilities of an older draft."""
    p, q = [[NAN] * 4], [[0.5, 0.25, 0, 0.25], FLAT]
    assert one_row(kernels, [0], p, q, [0.25], proposed=0)[0] == 0
    assert one_row(kernels, [0], p, q, [0.5], recover=0.25, proposed=0) == [1]
    assert one_row(kernels, [0], p, q, [0.5], recover=0.5, proposed=0) == [3]


@both
def test_a_greedy_row_accepts_only_the_targets_token(kernels: str) -> None:
    """If this fails, a one-hot target does not decide alone."""
    hot = [[0, 1.0, 0, 0], [0, 0, 1.0, 0]]
    assert one_row(kernels, [1], [[0, 1.0, 0, 0]], hot, [0.75]) == [1, 2]
    assert one_row(kernels, [0], [[1.0, 0, 0, 0]], hot, [0.25]) == [1]


@both
def test_the_window_ends_the_drafts(kernels: str) -> None:
    """If this fails, a ragged row's bonus is not drawn from q at its last window row."""
    p, q = [FLAT, FLAT], [FLAT, [0, 0, 0, 1.0], FLAT]
    assert one_row(kernels, [0, 3], p, q, [0.25, 0.25], window=2) == [0, 3]
    assert one_row(kernels, [0, 3], p, q, [0.25, 0.25], window=1, recover=0.5) == [2]


@both
def test_without_drafts_one_token_comes_from_q(kernels: str) -> None:
    """If this fails, a zero-draft step under rejection sampling reads p."""
    assert one_row(kernels, [], [[NAN] * 4], [[0, 0.5, 0.5, 0]], [], recover=0.25) == [1]
