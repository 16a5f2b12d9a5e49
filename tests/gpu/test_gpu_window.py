"""Windows and counters on examples worked out by hand (semantics, sections 2, 5 and 7)."""

from __future__ import annotations

import pytest
import torch
from kernels.twins import ADVANCE, WRITE
from torch import Tensor

from draftproof.gpu.advance import seed
from draftproof.gpu.memory import allocate
from draftproof.gpu.state import visible_windows
from draftproof.gpu.window import (
    prompt_rows,
    staged,
    visible_columns,
    write_frames,
)
from draftproof.reference.vocabulary import Config

NAN = float("nan")
both = pytest.mark.parametrize("kernels", WRITE)
pytestmark = pytest.mark.interpreted


def column_owners(kernels: str, width: int, old: int, n: int, rows: int) -> list[float]:
    """Write rows 100, 101, … of which n were accepted; what slot 0's columns hold afterwards.

    Before, every column holds its own number.
    """
    windows = torch.arange(float(width)).repeat(2, 1).view(2, 1, width, 1).clone()
    fresh = (100.0 + torch.arange(rows)).view(1, rows, 1, 1)
    WRITE[kernels](windows, torch.tensor([0]), torch.tensor([old]), torch.tensor([n]), fresh)
    held: list[float] = windows[0, 0, :, 0].tolist()
    return held


@both
@pytest.mark.parametrize(
    ("width", "old", "n", "expected"),
    [
        pytest.param(8, 0, 1, [0, 100, 2, 3, 4, 5, 6, 7], id="nothing accepted, position 0"),
        pytest.param(8, 5, 4, [102, 103, 2, 3, 4, 5, 100, 101], id="everything, around the ring"),
        pytest.param(8, 5, 2, [0, 1, 2, 3, 4, 5, 100, 101], id="rejected rows stay out"),
        pytest.param(3, 5, 4, [103, 101, 102], id="n > W: the last W"),
        pytest.param(3, 4, 2, [101, 1, 100], id="W < R: a masked row undoes nothing"),
        pytest.param(1, 4, 4, [103], id="W = 1: the newest"),
        pytest.param(1, 4, 1, [100], id="W = 1, nothing accepted"),
    ],
)
def test_accepted_rows_land_at_their_frames(
    kernels: str, width: int, old: int, n: int, expected: list[float]
) -> None:
    """If this fails, a row of position p is not at frame p + 1, or a rejected row is."""
    assert column_owners(kernels, width, old, n, rows=4) == expected


@both
def test_masked_rows_touch_no_other_slot(kernels: str) -> None:
    """If this fails, a rejected row of one request overwrites another's window."""
    windows = torch.zeros(4, 1, 2, 1)
    slots, old, n = torch.tensor([2, 0]), torch.tensor([0, 6]), torch.tensor([1, 2])
    WRITE[kernels](windows, slots, old, n, torch.arange(1.0, 7).view(2, 3, 1, 1))
    assert windows[:3, 0, :, 0].tolist() == [[5, 4], [0, 0], [0, 1]]


def test_the_stage_is_the_last_component() -> None:
    """If this fails, rows of different stages cannot be told apart."""
    assert staged(torch.tensor([[7.0, 8.0, 0.0]]), 2).tolist() == [[[7, 8, 0], [7, 8, 1]]]


def test_visible_columns_of_a_full_and_of_a_young_window() -> None:
    """If this fails, a column is visible that was never written."""
    frames, visible = visible_columns(torch.tensor([6, 6]), torch.tensor([4, 2]), 4)
    assert frames[0].tolist() == [4, 5, 6, 3]
    assert visible.tolist() == [[True] * 4, [False, True, True, False]]


def counters(slots: int) -> tuple[Tensor, Tensor, Tensor]:
    zeros = torch.zeros(slots + 1, dtype=torch.int64)
    return zeros, zeros.clone(), torch.zeros(slots + 1, dtype=torch.bool)


@both
def test_the_pinned_advance_example(kernels: str) -> None:
    """If this fails, an imported request does not start at its input position."""
    state, slots = counters(2), torch.tensor([0, 1])
    ADVANCE[kernels](*state, slots, torch.tensor([4016, 87]), torch.tensor([1, 1]), 8)
    assert [t.tolist() for t in state[:2]] == [[4017, 88, 0], [1, 1, 0]]
    ADVANCE[kernels](*state, slots, torch.tensor([5, 6]), torch.tensor([2, 3]), 8)
    assert [t.tolist() for t in state[:2]] == [[4019, 91, 0], [3, 4, 0]]
    assert state[2].tolist() == [True, True, False]


@both
def test_the_valid_length_stops_at_the_window(kernels: str) -> None:
    """If this fails, columns become visible twice."""
    state, slot = counters(1), torch.tensor([0])
    for _ in range(3):
        _, start, valid = ADVANCE[kernels](*state, slot, torch.tensor([0]), torch.tensor([2]), 3)
    assert (start.tolist(), valid.tolist()) == ([6], [3])


@both
def test_the_scratch_row_restarts_at_every_step(kernels: str) -> None:
    """If this fails, padding's position grows until it leaves the rotary table."""
    state, slots = counters(1), torch.tensor([1, 1])
    for _ in range(5):
        old, start, valid = ADVANCE[kernels](
            *state, slots, torch.tensor([50, 50]), torch.tensor([3, 3]), 8
        )
        assert (old.tolist(), start.tolist(), valid.tolist()) == ([0, 0], [3, 3], [3, 3])


def seed_chunks(width: int, chunks: list[tuple[int, int]]) -> tuple[list[float], int, int]:
    """Prompt chunks (first position, length) of one request; row of position p holds p.

    Returns the positions visible, oldest first, ctx_len and valid_len.
    """
    windows, state, slot = torch.full((2, 1, width, 7), NAN), counters(1), torch.tensor([0])
    for first, length in chunks:
        sources, slots, frames = prompt_rows([(0, 0, first, length)], width)
        rows = torch.zeros(length, 1, 7)
        rows[:, 0, 0] = torch.arange(first, first + length)
        write_frames(windows, torch.tensor(slots), torch.tensor(frames), rows[sources])
        seed(*state, slot, torch.tensor([first + length]), torch.tensor([length]), width)
    ctx_len, valid_len = state[0].tolist(), state[1].tolist()
    seen = visible_windows(windows, ctx_len, valid_len)[0][0]
    return [row[0] for row in seen], ctx_len[0], valid_len[0]


@pytest.mark.parametrize(
    ("width", "chunks", "expected"),
    [
        pytest.param(8, [(0, 3), (3, 2)], ([0, 1, 2, 3, 4], 5, 5), id="pinned example"),
        pytest.param(4, [(0, 9)], ([5, 6, 7, 8], 9, 4), id="chunk longer than the window"),
        pytest.param(4, [(0, 3), (3, 3)], ([2, 3, 4, 5], 6, 4), id="chunks around the ring"),
        pytest.param(4, [(6, 2)], ([6, 7], 8, 2), id="reused prefix is not visible"),
        pytest.param(1, [(0, 1), (1, 3)], ([3], 4, 1), id="W = 1"),
    ],
)
def test_seeding(
    width: int, chunks: list[tuple[int, int]], expected: tuple[list[float], int, int]
) -> None:
    """If this fails, a prompt is not where generation looks for it."""
    assert seed_chunks(width, chunks) == expected


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_every_component_survives_storing(dtype: torch.dtype) -> None:
    """If this fails, a component is not exact in the windows' dtype."""
    memory = allocate(Config(3, 128, 1, 1, poison=True), torch.device("cpu"), dtype)
    memory.windows[0, 0, :, 3] = torch.arange(128).to(dtype)
    shown = visible_windows(memory.windows, [127, 0], [128, 0])[0][0]
    assert [row[3] for row in shown] == list(range(128))
    assert {component for row in shown for component in row[:3]} == {-1}


def test_clearing_forgets_everything_but_confidence() -> None:
    """If this fails, a slot's next owner sees its last."""
    memory = allocate(Config(3, 2, 1, 2, poison=True), torch.device("cpu"), torch.bfloat16)
    for tensor in (memory.windows, memory.ctx_len, memory.valid_len, memory.confidence_logits):
        tensor.fill_(2)
    memory.initialized.fill_(True)
    memory.clear([1])
    assert memory.windows.isnan().all(dim=(1, 2, 3)).tolist() == [False, True, False]
    assert (memory.ctx_len.tolist(), memory.valid_len.tolist()) == ([2, 0, 2], [2, 0, 2])
    assert memory.initialized.tolist() == [True, False, True]
    memory.neutralise([1])
    assert memory.confidence_logits[:, 0].tolist() == [2, 30, 2, 2]
