"""The stand-in for a CUDA graph: what it does, what it freezes, and what it refuses."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.gpu.recorded_calls import CaptureError, RecordedCalls


def ints(*values: int) -> Tensor:
    return torch.tensor(values)


def test_nothing_executes_while_it_records() -> None:
    """If this fails, a capture changes the state, which a capture on a GPU does not."""
    state, index = ints(1, 2, 3), ints(0, 2)

    def path() -> Tensor:
        state[index] = 9
        state.add_(1)
        state[1:].zero_()
        return state.sum()

    RecordedCalls(path)
    assert state.tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.int64, torch.int8])
def test_results_are_poison_until_the_first_replay(kind: torch.dtype) -> None:
    """If this fails, a value that is used before it was computed looks right."""
    calls = RecordedCalls(lambda: torch.zeros(2, dtype=kind) + 1)
    assert not torch.isin(calls.result, torch.tensor([0, 1], dtype=kind)).any()
    calls.replay()
    assert calls.result.tolist() == [1, 1]


def test_a_replay_sees_what_its_memory_holds_now() -> None:
    """If this fails, a replay repeats the results of its capture."""
    values, index = ints(1, 2, 3, 4), ints(0, 0)
    calls = RecordedCalls(lambda: torch.where(values[index] > 2, values.view(2, 2).sum(1), 0))
    calls.replay()
    assert calls.result.tolist() == [0, 0]
    values.copy_(ints(5, 6, 7, 8))
    index.fill_(2)
    calls.replay()
    assert calls.result.tolist() == [11, 15]


def test_a_replay_writes_into_the_same_memory() -> None:
    """If this fails, somebody who holds a result of a graph holds another graph's."""
    values = ints(1, 2)
    calls = RecordedCalls(lambda: values * 2)
    place = calls.result.data_ptr()
    for _ in range(2):
        calls.replay()
        assert calls.result.data_ptr() == place
    assert calls.result.tolist() == [2, 4]


def test_views_and_writes_into_results_are_followed() -> None:
    """If this fails, a step that fills its result in parts gives poison."""
    values = ints(1, 2, 3)

    def path() -> Tensor:
        result = torch.empty(2, 3, dtype=torch.int64)
        result[0] = values
        result[1] = torch.zeros_like(values)
        result[1, 1:].copy_(values[:2])
        return result

    calls = RecordedCalls(path)
    calls.replay()
    assert calls.result.tolist() == [[1, 2, 3], [0, 1, 2]]


def test_several_results_of_one_operation() -> None:
    """If this fails, an operation that returns a pair cannot be recorded."""
    values = ints(3, 1, 2)
    calls = RecordedCalls(lambda: torch.stack([*torch.sort(values), *values.chunk(1)]))
    calls.replay()
    assert calls.result.tolist() == [[1, 2, 3], [1, 2, 0], [3, 1, 2]]


@pytest.mark.parametrize(
    "path",
    [
        lambda host, values: values + host["number"],
        lambda host, values: values.clone().index_fill_(0, torch.arange(2), host["number"]),
        lambda host, values: values + 1 if host["number"] == 1 else values,
        lambda host, values: values[: host["number"]] + torch.arange(2)[1:],
        lambda host, values: values + torch.full((2,), host["number"]),
    ],
    ids=["a number", "a filled number", "a branch", "a length", "a constant"],
)
def test_what_python_did_is_frozen(path: Callable[[dict[str, int], Tensor], Tensor]) -> None:
    """If this fails, the stand-in hides what a graph would do wrong."""
    host, values = {"number": 1}, ints(0, 0)
    calls = RecordedCalls(lambda: path(host, values))
    host["number"] = 2
    calls.replay()
    assert set(calls.result.tolist()) == {1}


@pytest.mark.parametrize(
    "unsafe",
    [
        lambda x: x.max().item(),
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: x if x.any() else -x,
        lambda x: x + torch.tensor([1, 2, 3]),
        lambda x: x.tolist(),
        lambda x: (x.to("cpu") + 0).to(x.device),
        lambda x: f"{x}",
        pickle.dumps,
    ],
)
def test_what_a_graph_cannot_hold_is_refused(unsafe: Callable[[Tensor], Any]) -> None:
    """If this fails, a worker that no GPU could capture passes on a CPU."""
    values = ints(1, 2, 3)  # outside: made in there, it would be refused itself
    with torch.inference_mode(), pytest.raises(CaptureError, match="a CUDA graph cannot hold"):
        RecordedCalls(lambda: unsafe(values))


@pytest.mark.interpreted
def test_kernels_are_recorded_too() -> None:
    """If this fails, a Triton kernel runs at capture, and not in replays."""
    from draftproof.gpu.kernels.operations import Kernels

    probs = torch.zeros(3, 2, 4)
    slots, tokens = ints(0, 2), ints(1, 2, 3, 0).view(2, 2)
    calls = RecordedCalls(lambda: Kernels().publish_one_hot(probs, slots, tokens))
    assert probs.count_nonzero() == 0
    calls.replay()
    assert probs.argmax(2).tolist() == [[1, 2], [0, 0], [3, 0]]
    slots.copy_(ints(1, 1))
    tokens.fill_(3)
    calls.replay()
    assert probs.argmax(2).tolist() == [[1, 2], [3, 3], [3, 0]]
