"""Options and batches that the worker refuses (semantics, sections 3, 6 and 16)."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from draftproof.gpu.worker import DSparkWorker, make
from draftproof.reference.vocabulary import Batch, BatchError, Collaborators, Config


def test_options() -> None:
    """If this fails, a mistyped option is silently ignored."""
    config, friends = Config(3, 8, 2, 4), Collaborators(lambda seam: None, lambda *_: ([], []))
    assert make(config, "cpu", friends, dtype="float32").memory.windows.dtype == torch.float32
    known = "'dtype', 'kernels', 'graphs'"
    with pytest.raises(ValueError, match=f"unknown option 'dtipe': there are {known}"):
        make(config, "cpu", friends, dtipe="float32")
    with pytest.raises(ValueError, match="'int8': it must be 'bfloat16' or 'float32'"):
        make(config, "cpu", friends, dtype="int8")


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, somebody without a GPU reads of pinned memory instead."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    friends = Collaborators(lambda seam: None, lambda *_: ([], []))
    with pytest.raises(ValueError, match=r"device 'cuda': torch \S+ finds no GPU here"):
        make(Config(3, 8, 2, 4), "cuda", friends)


TOO_LATE = [
    ({"hidden": None}, "hidden is missing, 56 numbers expected"),
    ({"hidden": array("b", [0])}, "hidden has 1 numbers, 56 expected"),
    ({"target_tokens": array("q", [0])}, "target_tokens has 1 numbers, 8 expected"),
    ({"all_greedy": False}, "target_probs is missing, 512 numbers expected"),
]
"""What only the target's run shows."""

REFUSED = [
    ({"drafts": array("q")}, "drafts has 0 numbers, 6 expected"),
    ({"draft_len": 4}, "draft length 4 is not in 0 .. 3"),
    ({"verify_lens": (1, 5)}, "verify window 5 is not in 1 .. 4"),
    ({"verify_lens": (1,)}, "1 verify windows for 2 generations"),
]


@pytest.mark.parametrize(("fields", "message"), TOO_LATE, ids=[text for _, text in TOO_LATE])
def test_what_the_target_left_is_refused_before_any_change(
    build: Callable[..., Batch],
    worker: Callable[..., DSparkWorker],
    fields: dict[str, Any],
    message: str,
) -> None:
    """If this fails, a step without hidden rows goes on with those of another."""
    ours = worker(use_rejection_sampling=True)
    batch = build(3, generations=[(2, 2, 5, 1), (3, 3, 7, 1)])
    ours.prepare(batch)
    before = repr(ours.state())
    with pytest.raises(BatchError, match=message):
        ours.forward(replace(batch, **fields))
    assert repr(ours.state()) == before


@pytest.mark.parametrize(("fields", "message"), REFUSED, ids=[text for _, text in REFUSED])
def test_bad_rows_are_refused_before_any_change(
    build: Callable[..., Batch],
    worker: Callable[..., DSparkWorker],
    fields: dict[str, Any],
    message: str,
) -> None:
    """If this fails, a wrong batch is half applied."""
    ours = worker(use_rejection_sampling=True)
    ours.prepare(build(3, generations=[(1, 1, 5, 2)]))
    before = repr(ours.state())
    batch = build(3, generations=[(2, 2, 5, 1), (3, 3, 7, 1)])
    with pytest.raises(BatchError, match=message):
        ours.prepare(replace(batch, **fields))
    assert repr(ours.state()) == before


def test_more_token_rows_than_fit_are_refused(
    build: Callable[..., Batch], worker: Callable[..., DSparkWorker]
) -> None:
    """If this fails, the hidden rows of a large batch are cut off, or written past their room."""
    ours = worker(max_num_tokens=16)
    fits = build(3, [(1, 1, 0, 12)], [(2, 2, 5, 1)])
    ours.prepare(fits)
    ours.forward(fits)
    with pytest.raises(BatchError, match="17 token rows in a batch, more than 16"):
        ours.prepare(build(3, [(1, 1, 0, 13)], [(2, 2, 5, 1)]))


@pytest.mark.parametrize(
    ("ids", "padding", "message"),
    [
        ([1, 2, 3, 4, 5], 0, "5 rows in a batch, but there are 4 slots"),
        ([1, 2, 1], 0, "request 1 is twice in the batch"),
        ([1], 6, "7 rows in a batch, but there are 4 slots"),
    ],
)
def test_impossible_rows_are_refused(
    build: Callable[..., Batch],
    worker: Callable[..., DSparkWorker],
    ids: list[int],
    padding: int,
    message: str,
) -> None:
    """If this fails, two rows share a slot, or a buffer overflows."""
    ours = worker(graph_batch_sizes=(2, 6))
    before = repr(ours.state())
    with pytest.raises(BatchError, match=message):
        ours.prepare(build(3, generations=[(i, 1, 5, 1) for i in ids], padding=padding))
    assert repr(ours.state()) == before
