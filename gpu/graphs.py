"""The generation path as a graph: captured once for each shape, then replayed (section 11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from draftproof.gpu.checks import draws_numbers
from draftproof.gpu.recorded_calls import RecordedCalls
from draftproof.reference.vocabulary import Batch, StepResult

Path = Callable[[], StepResult]
"""The device work of one step. It reads the batch at the addresses of `StaticInputs` only."""


class Key(NamedTuple):
    """What a graph is captured for: everything that the host decides on the generation path.

    rows: the padded batch size. tokens: the token bucket of a ragged step; 0 without one, when its
    packed arrays have the size of the largest step. drawn: a sampled step that draws its own random
    numbers.
    """

    rows: int
    draft_len: int
    all_greedy: bool
    ragged: bool
    drawn: bool
    tokens: int


def key_of(batch: Batch) -> Key | None:
    """The key of a step to capture or replay; None: it runs eagerly."""
    if batch.mode not in ("capture", "replay") or batch.contexts or not batch.generations:
        return None
    return Key(
        rows=len(batch.generations),
        draft_len=batch.draft_len,
        all_greedy=batch.all_greedy,
        ragged=batch.verify_lens is not None,
        drawn=not batch.all_greedy and draws_numbers(batch),
        tokens=batch.verify_bucket or 0,
    )


class Graphs:
    """All captured graphs of a worker; on a CPU recorded calls stand in for them."""

    def __init__(self, device: torch.device) -> None:
        self._captured: dict[Key, CudaGraph | RecordedCalls] = {}
        self._cuda = _Cuda(device) if device.type == "cuda" else None

    def __contains__(self, key: Key) -> bool:
        return key in self._captured

    @contextmanager
    def warming_up(self) -> Iterator[None]:
        """Where the path runs once before its capture: on a GPU, on the stream of captures.

        Kernels are compiled there, and constants that outlive the step are made: those of a
        capture would hold nothing until its first replay.
        """
        with _beside(self._cuda):
            yield

    def capture(self, key: Key, path: Path) -> None:
        """Record the path; nothing executes, and nothing is kept if it raises."""
        if self._cuda is None:
            self._captured[key] = RecordedCalls(path)
        else:
            self._captured[key] = CudaGraph(path, self._cuda)

    def replay(self, key: Key) -> StepResult:
        """Do the recorded work; the result is copied out of the memory that graphs share."""
        graph = self._captured[key]
        graph.replay()
        result: StepResult = graph.result
        return replace(
            result,
            new_tokens=result.new_tokens.clone(),
            new_tokens_lens=result.new_tokens_lens.clone(),
            next_draft_tokens=result.next_draft_tokens.clone(),
            next_new_tokens=result.next_new_tokens.clone(),
        )

    def unspecified(self, key: Key) -> StepResult:
        """The result of a step that only captured: of the right shape, and nothing else."""
        result: StepResult = self._captured[key].result
        return result


def captured_alone(path: Callable[[], Any], device: torch.device) -> CudaGraph | RecordedCalls:
    """Some other path than a worker's, run once and then captured, with a pool of its own."""
    cuda = _Cuda(device) if device.type == "cuda" else None
    with _beside(cuda):
        path()
    return RecordedCalls(path) if cuda is None else CudaGraph(path, cuda)


@contextmanager
def _beside(cuda: _Cuda | None) -> Iterator[None]:
    """On the stream of captures, once it has caught up, and the current one after it."""
    if cuda is None:
        yield
        return
    cuda.stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(cuda.stream):
        yield
    torch.cuda.current_stream().wait_stream(cuda.stream)


class _Cuda:
    """What all captures on one GPU share: a stream, and a pool for memory inside graphs."""

    def __init__(self, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's own
        self.pool = torch.cuda.graph_pool_handle()


class CudaGraph:
    """The real thing, with the same methods as `RecordedCalls`."""

    def __init__(self, path: Callable[[], Any], cuda: _Cuda) -> None:
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=cuda.pool, stream=cuda.stream):
            self.result = path()

    def replay(self) -> None:
        """Do the recorded work with what its memory holds now."""
        self._graph.replay()
