"""What the device does, apart from bringing a step's inputs there: for whoever measures it.

In an engine the target leaves its output on the device. Here the harness brings it, in arrays of
the host, which would be most of what a stopwatch on `forward` sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from draftproof.gpu.checks import check_batch
from draftproof.gpu.constants import ramp
from draftproof.gpu.dispatch import draft_operations
from draftproof.gpu.draft_model.model import DraftModel
from draftproof.gpu.draft_model.shape import DraftShape, random_weights
from draftproof.gpu.graphs import captured_alone
from draftproof.gpu.options import device_named, read_options
from draftproof.gpu.worker import DSparkWorker
from draftproof.reference.vocabulary import Batch, Collaborators, Config


class ResidentWorker(DSparkWorker):
    """`prepare` gets the whole batch and takes it to the device; `forward` only works there.

    It may be called again and again: each time the same tokens come anew.
    """

    @torch.inference_mode()
    def prepare(self, batch: Batch) -> None:
        """Raises BatchError."""
        super().prepare(batch)
        check_batch(batch, self.config)
        super()._bring(batch)

    def _bring(self, batch: Batch) -> None:
        """Everything is there already."""


def make(
    config: Config, device: str, collaborators: Collaborators, **options: str
) -> ResidentWorker:
    """Like `gpu.worker.make`."""
    return ResidentWorker(config, device_named(device), collaborators, read_options(**options))


class Measured:
    """Something that draws the tokens of one block of each request, by itself or replayed.

    moved: bytes that must move at least: every input and every result once; of tables by token,
    the rows looked up.
    """

    def __init__(
        self, path: Callable[[], Tensor], moved: int, device: torch.device, graphs: bool
    ) -> None:
        self.path = torch.inference_mode()(path)
        self.moved = moved
        self.graph = captured_alone(self.path, device) if graphs else None

    @torch.inference_mode()
    def run(self) -> Tensor:
        """The tokens, int64 [G, K]."""
        if self.graph is None:
            return self.path()
        self.graph.replay()
        tokens: Tensor = self.graph.result
        return tokens


class Block(Measured):
    """A draft model of bfloat16 that drafts one block of each request, over full windows.

    Weights and windows are noise. Logits and whatever else lies in between could stay in
    registers, so they do not count as moved.
    """

    def __init__(
        self, shape: DraftShape, rows: int, device: torch.device, kernels: str, graphs: bool
    ) -> None:
        noise = torch.Generator(device).manual_seed(0)
        weights = random_weights(shape, torch.bfloat16, device)
        self.model = DraftModel(shape, weights, draft_operations(kernels, device))
        size = (rows + 1, shape.stages, shape.window, shape.head_dim)
        windows = torch.randn(size, generator=noise, device=device).to(torch.bfloat16)
        full = torch.full((rows,), shape.window, device=device)
        slots = ramp(rows, device)
        self.given = windows, slots, 2 * full + slots, full, slots % shape.vocab
        super().__init__(self._draft, _moved(self.model, windows, rows), device, graphs)

    def _draft(self) -> Tensor:
        return self.model.draft(*self.given).tokens


def make_block(
    sizes: Mapping[str, Any], rows: int, device: str, kernels: str = "eager", graphs: bool = False
) -> Block:
    """sizes: fields of `DraftShape`; rows: requests; options as in `gpu.worker.make`."""
    return Block(DraftShape(**sizes), rows, device_named(device), kernels, graphs)


class Chain(Measured):
    """The Markov chain alone, of bfloat16, over logits that are noise.

    kernels: "triton" is the form in 2 K launches, "joined" that in K + 1.
    """

    def __init__(
        self, shape: DraftShape, rows: int, device: torch.device, kernels: str, graphs: bool
    ) -> None:
        noise = torch.Generator(device).manual_seed(0)
        random = partial(torch.randn, generator=noise, device=device)
        size = shape.vocab, shape.markov_rank
        w1, w2 = (random(size).to(torch.bfloat16) for _ in range(2))
        logits = random((rows, shape.block, shape.vocab))
        given = logits, ramp(rows, device) % shape.vocab, w1, w2
        path = partial(_chain(kernels, device), *given)
        each = w1[0].nbytes + torch.int64.itemsize
        moved = logits.nbytes + w2.nbytes + rows * shape.block * each
        super().__init__(path, moved, device, graphs)


def _chain(kernels: str, device: torch.device) -> Callable[..., Tensor]:
    if kernels == "eager":
        return draft_operations(kernels, device).markov_chain
    draft_operations("triton", device)  # Triton may be imported only behind this
    from draftproof.gpu.kernels.markov import markov_chain

    return partial(markov_chain, joined=kernels == "joined")


def make_chain(
    sizes: Mapping[str, Any], rows: int, device: str, kernels: str = "eager", graphs: bool = False
) -> Chain:
    """Arguments as of `make_block`."""
    return Chain(DraftShape(**sizes), rows, device_named(device), kernels, graphs)


LOOKED_UP = ("embedding", "w1")
"""Tables by token."""

ELSEWHERE = ("main_proj", "main_norm", "rnn_gate", "rnn_candidate", "rnn_output")
"""Weights that a block is drafted without: those of the window's rows, and of the other head."""


def _moved(model: DraftModel, windows: Tensor, rows: int) -> int:
    weights, block = model.weights, model.shape.block
    whole: int = sum(
        getattr(weights, name).nbytes
        for name in weights.__slots__
        if name not in LOOKED_UP + ELSEWHERE
    )
    looked_up = (rows + 1) * weights.embedding[0].nbytes  # bonus tokens, and the noise token
    looked_up += rows * block * weights.w1[0].nbytes
    results = rows * block * (torch.int64.itemsize + torch.float32.itemsize)
    return whole + looked_up + rows * windows[0].nbytes + results
