"""Windows, counters, drafts and slots, each against the model's, on generated inputs.

Examples with the edge cases are tried before anything is drawn.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from batches import make_batch, small, tagged
from examples import share
from hypothesis import example, given
from hypothesis import strategies as st
from kernels.twins import ADVANCE, WRITE
from torch import Tensor

from draftproof.gpu.advance import advance, seed
from draftproof.gpu.exact_drafter import confidence, context_sum, draft_argmax
from draftproof.gpu.slots import Changes, SlotMap, is_dummy
from draftproof.gpu.state import visible_windows
from draftproof.gpu.window import prompt_rows, staged, visible_columns, write_accepted, write_frames
from draftproof.reference.drafter import make_drafter
from draftproof.reference.slots import Slots
from draftproof.reference.vocabulary import PADDING_ID_BASE, Frames, GenerationRow
from draftproof.reference.window import Captured, Window

pytestmark = pytest.mark.interpreted

NAN = float("nan")


# ---- windows and counters ------------------------------------------------------------------------

Life = tuple[int, list[tuple[int, int]], list[tuple[int, int]]]
"""Of a slot: where its request begins; chunks, by what is skipped before each and by length; the
generations, by rows fed and rows accepted."""

LIFE = st.tuples(
    st.sampled_from((0, 1, 5, 247, 16_380)),
    st.lists(st.tuples(st.just(0), st.integers(1, 9)), max_size=2),
    st.lists(
        st.integers(1, 5).flatmap(lambda rows: st.tuples(st.just(rows), st.integers(1, rows))),
        min_size=3,
        max_size=3,
    ),
)


def hidden(first: int, count: int) -> Tensor:
    """Rows of consecutive positions, bfloat16 [count, D]."""
    return torch.tensor([tagged(1, p) for p in range(first, first + count)], dtype=torch.bfloat16)


@dataclass
class Both:
    """The torch side's windows and counters of one stage, and the model's windows."""

    width: int
    lives: list[Life]

    def __post_init__(self) -> None:
        slots = len(self.lives)
        self.cells = torch.full((slots + 1, 1, self.width, 7), NAN, dtype=torch.bfloat16)
        zeros = torch.zeros(slots + 1, dtype=torch.int64)
        self.counters = zeros, zeros.clone(), torch.zeros(slots + 1, dtype=torch.bool)
        self.models = [Window(self.width, 1) for _ in self.lives]
        self.ends = [life[0] for life in self.lives]

    def seed(self, slot: int, length: int) -> None:
        first, end = self.ends[slot], self.ends[slot] + length
        rows = hidden(first, length)
        sources, slots, frames = prompt_rows([(slot, 0, first, length)], self.width)
        stored = staged(rows[sources], 1)
        write_frames(self.cells, torch.tensor(slots), torch.tensor(frames), stored)
        last, count = torch.tensor([end]), torch.tensor([length])
        seed(*self.counters, torch.tensor([slot]), last, count, self.width)
        self._follow(slot, rows, length)

    def step(self, write: Callable[..., Any], move: Callable[..., Any], number: int) -> None:
        """One step of all slots, each with as many rows as the widest, of which n are accepted."""
        fed = max(life[2][number][0] for life in self.lives)
        counts = [life[2][number][1] for life in self.lives]
        rows = [hidden(end, fed) for end in self.ends]
        slots, n = torch.arange(len(counts)), torch.tensor(counts)
        old, _, _ = move(*self.counters, slots, torch.tensor(self.ends), n, self.width)
        write(self.cells, slots, old, n, staged(torch.stack(rows), 1))
        for slot, count in enumerate(counts):
            self._follow(slot, rows[slot], count)

    def _follow(self, slot: int, rows: Tensor, count: int) -> None:
        self.ends[slot] += count
        kept = Frames(rows[:count].to(torch.int8).numpy().tobytes())
        self.models[slot].append(Captured.of(kept, 1), 0, count, self.ends[slot])

    def compare(self) -> None:
        models = self.models
        ctx_len, valid_len, initialized = (counter[:-1].tolist() for counter in self.counters)
        assert ctx_len == [model.last_frame for model in models]
        assert valid_len == [model.valid_len for model in models]
        assert initialized == [model.initialized for model in models]
        lengths = [counter.tolist() for counter in self.counters[:2]]
        assert visible_windows(self.cells, *lengths) == [model.stages for model in models]
        self._compare_drafts()

    def _compare_drafts(self) -> None:
        """Section 8a, over all slots at once."""
        start, valid, bonus = (counter[:-1] for counter in (*self.counters[:2], self.counters[0]))
        frames, visible = visible_columns(start, valid, self.width)
        total = context_sum(self.cells[:-1], frames, visible)
        drafts = draft_argmax(total, start, bonus % 64, 3, 64)
        logits = confidence(total, bonus % 64, drafts)
        lent = make_drafter(small(window_size=self.width))
        assert [(d, c) for d, c in zip(drafts.tolist(), logits.tolist(), strict=True)] == [
            lent(
                [stage.tolist() for stage in model.stages], model.last_frame, model.last_frame % 64
            )
            for model in self.models
        ]


def check_windows(
    write: Callable[..., Any], move: Callable[..., Any], width: int, lives: list[Life]
) -> None:
    both = Both(width, lives)
    for slot, (_, chunks, _) in enumerate(lives):
        for _, length in chunks:
            both.seed(slot, length)
            both.compare()
    for number in range(len(lives[0][2])):
        both.step(write, move, number)
        both.compare()


FULL: list[tuple[int, int]] = [(4, 4), (4, 4), (4, 1)]
ONE: list[tuple[int, int]] = [(4, 1), (4, 1), (4, 4)]


@pytest.mark.parametrize("kernels", WRITE)
@share(0.3)
@given(width=st.sampled_from((1, 2, 3, 4, 8)), lives=st.lists(LIFE, min_size=1, max_size=3))
@example(width=1, lives=[(0, [], FULL)])  # W = 1, position 0, n > W
@example(width=3, lives=[(5, [(0, 9)], FULL)])  # W < the block; a chunk longer than the window
@example(width=8, lives=[(0, [], ONE), (247, [(0, 2)], FULL)])  # nothing and everything accepted
def test_windows_counters_and_drafts(kernels: str, width: int, lives: list[Life]) -> None:
    """If this fails, a row is stored or counted otherwise than by the model, or drafts differ."""
    check_windows(WRITE[kernels], ADVANCE[kernels], width, lives)


# ---- slots ---------------------------------------------------------------------------------------

PRESENT = st.lists(
    st.tuples(st.sampled_from((0, 1, 2, 3, 4, PADDING_ID_BASE - 3)), st.integers(1, 2)),
    max_size=3,
    unique_by=lambda row: row[0],
)


Steps = list[tuple[list[tuple[int, int]], bool]]
"""Who is in each batch, by id and incarnation, and whether their prompts start anew."""


def check_slots(mine: SlotMap, steps: Steps) -> None:
    theirs = Slots(small(), lambda slot: None, lambda slot: None)
    for rows, reset in steps:
        mine.retire(dict(rows), Changes())
        theirs.forget_departed(make_batch(*(GenerationRow(i, n, 0, 5) for i, n in rows)))
        for request, life in rows:
            assert is_dummy(request, 3) == theirs.is_dummy(request)
            if not is_dummy(request, 3):
                slot = mine.assign(request, life, reset, Changes())
                assert slot == theirs.assign(request, life, reset)
        assert {i: tuple(owner) for i, owner in mine.owners.items()} == theirs.owned
        assert (list(mine.owners), mine.free) == (list(theirs.owned), theirs.free)


ARRIVALS: Steps = [([(1, 1), (2, 1), (3, 1)], False), ([(4, 1), (3, 2)], True)]


@given(steps=st.lists(st.tuples(PRESENT, st.booleans()), min_size=1, max_size=8))
@example(steps=[([], False)])
@example(steps=ARRIVALS)
def test_slots(steps: Steps) -> None:
    """If this fails, the two sides give a request different slots."""
    check_slots(SlotMap(3), steps)


# ---- what turns them red -------------------------------------------------------------------------


def keeps_all_rows(cells: Tensor, slots: Tensor, old: Tensor, n: Tensor, rows: Tensor) -> None:
    write_accepted(cells, slots, old, torch.full_like(n, rows.shape[1]), rows)


def never_clamps(*given: Any) -> Any:
    move: Any = advance
    return move(*given[:-1], given[-1] + 1)


@pytest.mark.parametrize("steps", [ONE, FULL])
def test_a_window_that_is_wrong_is_seen(steps: list[tuple[int, int]]) -> None:
    """If this fails, a comparison above holds whatever the worker stores or counts."""
    check_windows(write_accepted, advance, 3, [(0, [], steps)])
    write, move = (keeps_all_rows, advance) if steps is ONE else (write_accepted, never_clamps)
    with pytest.raises(AssertionError):
        check_windows(write, move, 3, [(0, [], steps)])


def test_a_draft_that_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, drafts and confidences are not compared at all."""
    whole = confidence
    monkeypatch.setattr(
        sys.modules[__name__], "confidence", lambda total, *more: whole(total + 1, *more)
    )
    with pytest.raises(AssertionError):
        check_windows(write_accepted, advance, 8, [(0, [], FULL)])


class Stack(deque[int]):
    def popleft(self) -> int:
        return self.pop()


def test_a_slot_that_is_wrong_is_seen() -> None:
    """If this fails, slots may be given out in any order."""
    mine = SlotMap(3)
    mine.free = Stack(mine.free)
    with pytest.raises(AssertionError):
        check_slots(mine, ARRIVALS)
