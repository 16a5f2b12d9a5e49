"""The torch draft model where lists do not reach: buffers, slots, poison, capture, true sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from draftproof.gpu.draft_model.heads import Drawing, fed_tokens
from draftproof.gpu.draft_model.model import Draft, DraftModel
from draftproof.gpu.draft_model.shape import (
    DraftShape,
    DraftWeights,
    random_weights,
    weight_shapes,
    weights_from_lists,
)
from draftproof.gpu.operations import Accepted, Prompt
from draftproof.gpu.window import write_frames

SHAPE = DraftShape(
    block=4, window=6, stages=2, vocab=32, hidden=16, captured_layers=2, streams=3, heads=4,
    head_dim=8, rope_head_dim=4, q_rank=8, groups=2, o_rank=4, ffn=16, markov_rank=4,
    noise_token=3, max_position=9000,
)  # fmt: skip
NAN = float("nan")


def model(shape: DraftShape = SHAPE, dtype: torch.dtype = torch.float32) -> DraftModel:
    return DraftModel(shape, random_weights(shape, dtype, "cpu", seed=1))


def filled(drafter: DraftModel, starts: list[int], valid: list[int], poison: float) -> Tensor:
    """Windows whose row g is request g; what is not visible is poison."""
    shape, dtype = drafter.shape, drafter.weights.embedding.dtype
    size = (len(starts) + 1, shape.stages, shape.window, shape.head_dim)
    windows = torch.full(size, poison, dtype=dtype)
    generator = torch.Generator().manual_seed(7)
    for g, (start, count) in enumerate(zip(starts, valid, strict=True)):
        frames = torch.arange(start - count + 1, start + 1)
        width = shape.streams * shape.hidden
        captured = torch.randn(shape.captured_layers, count, width, generator=generator).to(dtype)
        rows = drafter.window_rows(list(captured), frames)
        write_frames(windows, torch.full((count,), g), frames, rows)
    return windows


def drafted(drafter: DraftModel, windows: Tensor, starts: list[int], valid: list[int]) -> Draft:
    rows = torch.arange(len(starts))
    return drafter.draft(windows, rows, torch.tensor(starts), torch.tensor(valid), rows + 5)


@pytest.mark.parametrize("rnn", [False, True])
@pytest.mark.parametrize("window", [1, 2, 6])
def test_what_is_not_visible_is_never_read(window: int, rnn: bool) -> None:
    """If this fails, a cleared or foreign cell reaches a draft: NaN and zeros must be the same."""
    drafter = model(replace(SHAPE, window=window, rnn=rnn))
    starts, valid = [1, 7, 8000, 13], [0, window, 1, window - window // 2]
    poisoned, zeros = (
        drafted(drafter, filled(drafter, starts, valid, poison), starts, valid)
        for poison in (NAN, 0.0)
    )
    for found, wanted in zip(poisoned, zeros, strict=True):
        assert found.isfinite().all()
        assert torch.equal(found, wanted)


def test_a_request_does_not_see_its_neighbours() -> None:
    """If this fails, a draft depends on slot, order or neighbours."""
    drafter, starts, valid = model(), [5, 40, 4097], [5, 6, 3]
    windows = filled(drafter, starts, valid, NAN)
    together = drafted(drafter, windows, starts, valid)
    moved = windows[[3, 1, 2, 0]]
    alone = drafter.draft(moved, *(torch.tensor([x]) for x in (3, starts[0], valid[0], 5)))
    for all_rows, one_row in zip(together, alone, strict=True):
        assert torch.allclose(all_rows[:1], one_row, atol=1e-6)


def test_the_ring_may_wrap_anywhere() -> None:
    """If this fails, a draft depends on the column where its newest frame lies.

    Turning every position by a multiple of W keeps columns and distances; other shifts move the
    columns round the ring. All must draft the same, since rotary sees distances only.
    """
    drafter, expected = model(), None
    for shift in range(SHAPE.window + 1):
        starts, valid = [6 + shift], [5]
        windows = filled(drafter, starts, valid, NAN)
        found = drafted(drafter, windows, starts, valid)
        if expected is None:
            expected = found
        assert torch.allclose(found.hidden, expected.hidden, atol=2e-5)
        assert torch.equal(found.tokens, expected.tokens)


def test_confidence_is_of_the_tokens_that_were_fed() -> None:
    """If this fails, a confidence belongs to another position of the block."""
    drafter, starts, valid = model(), [9], [6]
    found = drafted(drafter, filled(drafter, starts, valid, NAN), starts, valid)
    fed = fed_tokens(torch.tensor([5]), found.tokens)
    assert fed.tolist() == [[5, *found.tokens[0, :-1].tolist()]]
    assert torch.equal(found.confidence, drafter.confidence(found.hidden, fed))
    assert found.confidence.dtype == found.logits.dtype == torch.float32


def test_window_rows_of_a_step_are_those_of_its_tokens() -> None:
    """If this fails, a row stored in a step of many depends on the others."""
    drafter = model(dtype=torch.bfloat16)
    width = SHAPE.streams * SHAPE.hidden
    captured = list(torch.randn(SHAPE.captured_layers, 9, width).to(torch.bfloat16))
    frames = torch.tensor([1, 2, 3, 50, 51, 52, 4000, 8999, 9000])
    rows = drafter.window_rows(captured, frames)
    assert rows.shape == (9, SHAPE.stages, SHAPE.head_dim)
    assert rows.dtype == torch.bfloat16
    for i in range(9):
        one = drafter.window_rows([layer[i : i + 1] for layer in captured], frames[i : i + 1])
        assert torch.allclose(one[0].float(), rows[i].float(), atol=2**-5)


def test_a_step_stores_the_rows_of_their_frames() -> None:
    """If this fails, the window write of a step and `window_rows` are not of one model.

    A prompt of 3 tokens and a generation of 4 rows, 2 of them accepted; nothing else is touched.
    """
    drafter = model()
    width = SHAPE.streams * SHAPE.hidden
    captured = list(torch.randn(SHAPE.captured_layers, 7, width))
    frames = torch.tensor([1, 2, 3, 41, 42, 43, 44])
    projected = linear(drafter.context(captured), drafter.weights.wkv.flatten(0, 1))
    rows = torch.unflatten(projected, -1, (SHAPE.stages, SHAPE.head_dim))
    windows = torch.full((4, SHAPE.stages, SHAPE.window, SHAPE.head_dim), NAN)
    expected = windows.clone()
    prompt = Prompt(rows[:3], torch.arange(3), torch.full((3,), 2), frames[:3])
    generation = rows[3:].unsqueeze(0), *(torch.tensor([n]) for n in (0, 40, 2))
    drafter.store(windows, prompt, Accepted(*generation))
    found = drafter.window_rows(captured, frames)
    for slot, i in ((2, 0), (2, 1), (2, 2), (0, 3), (0, 4)):
        expected[slot, :, int(frames[i]) % SHAPE.window] = found[i]
    assert torch.allclose(windows[:3], expected[:3], atol=1e-6, equal_nan=True)


# ---- capture safety ------------------------------------------------------------------------------


@pytest.mark.parametrize("rnn", [False, True])
def test_a_block_is_drafted_where_no_values_are(rnn: bool) -> None:
    """If this fails, the block path cannot be captured in a CUDA graph: on the meta device there
    are shapes but no values, so whoever looks at one, or has a shape that depends on one, fails.
    """
    shape = replace(SHAPE, rnn=rnn)
    sizes = weight_shapes(shape)
    with torch.device("meta"):
        drafter = DraftModel(shape, DraftWeights(**{n: torch.empty(sizes[n]) for n in sizes}))
        windows = torch.empty(3, shape.stages, shape.window, shape.head_dim)
        ints = torch.empty(2, dtype=torch.int64)
        captured = [torch.empty(2, shape.streams * shape.hidden)] * shape.captured_layers
        found = drafter.draft(windows, ints, ints, ints, ints)
        drawing = Drawing(ints > 0, torch.empty(2), torch.empty(2, shape.block))
        assert found.tokens.shape == (2, shape.block)
        if rnn:
            with pytest.raises(ValueError, match="argmax only"):
                drafter.chain_sampled(found.logits, ints, drawing)
        else:
            assert drafter.chain_sampled(found.logits, ints, drawing)[0].shape == (2, shape.block)
        assert drafter.window_rows(captured, ints).shape == (2, shape.stages, shape.head_dim)


def test_values_cannot_be_read_there() -> None:
    """If this fails, the test above is green whatever the block path does."""
    with torch.device("meta"):
        values = torch.empty(2)
        with pytest.raises(RuntimeError):
            values.sum().item()
        with pytest.raises(RuntimeError):
            bool(values[0] > 0)
        with pytest.raises(NotImplementedError):
            values[values > 0]


# ---- weights -------------------------------------------------------------------------------------


def test_weights_survive_the_way_through_lists() -> None:
    """If this fails, a model in torch and one in lists do not have the same weights."""
    weights = random_weights(SHAPE, torch.bfloat16, "cpu", seed=2)
    names = weight_shapes(SHAPE)
    stacked = [name for name, size in names.items() if size[0] == SHAPE.stages]
    lists = {name: getattr(weights, name).tolist() for name in names if name not in stacked}
    lists["stages"] = [
        {name: getattr(weights, name)[s].tolist() for name in stacked} for s in range(SHAPE.stages)
    ]
    again: DraftWeights = weights_from_lists(lists, SHAPE, torch.bfloat16, "cpu")
    for name, size in names.items():
        found, wanted = getattr(again, name), getattr(weights, name)
        assert found.dtype == wanted.dtype
        assert tuple(found.shape) == size
        assert torch.equal(found, wanted)


def test_the_published_attention_sizes_run() -> None:
    """If this fails, the model only works at toy sizes: head_dim 512, W = 128, K = 5, 3 stages."""
    shape = replace(
        SHAPE, block=5, window=128, stages=3, heads=8, head_dim=512, rope_head_dim=64, hidden=64,
        groups=4, vocab=256,
    )  # fmt: skip
    drafter, starts, valid = model(shape, torch.bfloat16), [4016], [128]
    found = drafted(drafter, filled(drafter, starts, valid, NAN), starts, valid)
    assert found.logits.shape == (1, 5, 256)
    assert found.hidden.isfinite().all()
