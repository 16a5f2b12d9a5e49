"""The exact drafter against its formula in plain Python (semantics, sections 8a and 19)."""

from __future__ import annotations

import random

import pytest
import torch

from draftproof.gpu.exact_drafter import (
    confidence,
    context_sum,
    draft_argmax,
    draft_law,
    draft_sampled,
)

NAN = float("nan")


def test_the_formula_worked_out_by_hand() -> None:
    """If this fails, drafts of the two sides differ although their windows agree."""
    # One stage, W = 2: frame 2 in column 0, frame 1 in column 1, not visible.
    rows = torch.tensor([[[[1.0, 2, 0, 0, 0, 0, 3], [NAN] * 7]]], dtype=torch.bfloat16)
    frames, visible = torch.tensor([[2, 1]]), torch.tensor([[True, False]])
    total = context_sum(rows, frames, visible)
    assert total.tolist() == [(2 + 1) * (1 * 1 + 3 * 2 + 13 * 3)]  # 138
    start, bonus = torch.tensor([2]), torch.tensor([5])
    drafts = draft_argmax(total, start, bonus, 2, 64)
    first = (138 + 31 * 5 + 7 * 0 + 2) % 64  # 39
    assert drafts.tolist() == [[first, (138 + 31 * first + 7 * 1 + 2) % 64]]
    index = [(138 + 13 * 5 + 0) % 64, (138 + 13 * first + 1) % 64]
    assert confidence(total, bonus, drafts).tolist() == [[(i - 32) / 8 for i in index]]


def test_the_sum_over_stages_and_frames() -> None:
    """If this fails, a frame's weight or a stage is wrong for long requests or several stages."""
    rng = random.Random(1)
    rows = [
        [[[rng.randrange(128) for _ in range(7)] for _ in range(5)] for _ in range(3)]
        for _ in range(4)
    ]
    frames = [[rng.randrange(20_000) for _ in range(5)] for _ in range(4)]
    visible = [[rng.random() < 0.5 for _ in range(5)] for _ in range(4)]
    expected = [
        sum(
            (f % 251 + 1) * sum((2 * j + 1) * x for j, x in enumerate(row))
            for stage in rows[g]
            for row, f, seen in zip(stage, frames[g], visible[g], strict=True)
            if seen
        )
        for g in range(4)
    ]
    found = context_sum(
        torch.tensor(rows, dtype=torch.bfloat16), torch.tensor(frames), torch.tensor(visible)
    )
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("vocab", "best", "law"),
    [
        (6, 1, [0, 0.5, 0.25, 0.125, 0.125, 0]),
        (6, 4, [0.125, 0.125, 0, 0, 0.5, 0.25]),
        (2, 1, [0.375, 0.625]),
        (1, 0, [1.0]),
    ],
)
def test_the_draft_law(vocab: int, best: int, law: list[float]) -> None:
    """If this fails, masses on the same token are lost or wrap to the wrong token."""
    assert draft_law(torch.tensor([best]), vocab).tolist() == [law]


def test_sampled_rows_draw_from_the_law_and_feed_the_drawn_token_on() -> None:
    """If this fails, the chain goes on from the argmax, or a greedy row is sampled."""
    total, start, bonus = torch.tensor([0, 0]), torch.tensor([0, 0]), torch.tensor([0, 0])
    greedy, uniforms = torch.tensor([False, True]), torch.tensor([[0.5, 1.0], [0.5, 1.0]])
    drafts, probs = draft_sampled(total, start, bonus, greedy, uniforms, 64)
    # Row 0: t = 0, u = 1/2 goes past its mass of 1/2 to 1; then t = 31 + 7, u = 1 takes the last.
    assert drafts.tolist() == [[1, 41], [0, 7]]
    assert probs[0, 0, :4].tolist() == [0.5, 0.25, 0.125, 0.125]
    assert probs[0, 1, 38:42].tolist() == [0.5, 0.25, 0.125, 0.125]
    assert [row.nonzero().tolist() for row in probs[1]] == [[[0]], [[7]]]
    assert probs.sum(2).tolist() == [[1, 1], [1, 1]]


def test_the_draw_goes_through_the_vocabulary_from_0() -> None:
    """If this fails, a law that wraps around is drawn from its argmax on, not from token 0 on."""
    zero = torch.tensor([0])
    start, uniforms = torch.tensor([5]), torch.tensor([[0.125]])
    drafts, probs = draft_sampled(zero, start, zero, torch.tensor([False]), uniforms, 6)
    assert probs.tolist() == [[[0.25, 0.125, 0.125, 0, 0, 0.5]]]
    assert drafts.tolist() == [[0]]
