"""The draft model holds nothing that a CUDA graph could not either: block, window rows, draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from device import DEVICE
from kernels.inputs import DRAFT_SIZES, Numbers
from torch import Tensor

from draftproof.gpu.capture_safety import CaptureWatch
from draftproof.gpu.draft_model.heads import Drawing, markov_chain_sampled
from draftproof.gpu.draft_model.model import DraftModel
from draftproof.gpu.kernels.markov import markov_chain_sampled as by_kernels
from draftproof.gpu.measured import make_block

pytestmark = pytest.mark.interpreted
both = pytest.mark.parametrize("kernels", ["eager", "triton"])


def watched(call: Callable[[], Any]) -> CaptureWatch:
    """The second call under a watch; the first one makes what all later ones share."""
    call()
    with CaptureWatch() as watch:
        call()
    return watch


@both
@pytest.mark.parametrize("rnn", [False, True])
def test_a_block_and_its_window_rows_are_safe(kernels: str, rnn: bool) -> None:
    """If this fails, a CUDA graph cannot hold the draft model: the message says what, where."""
    block = make_block({**DRAFT_SIZES, "rnn": rnn}, 3, DEVICE.type, kernels)
    assert watched(block.run).findings == []
    numbers = Numbers(0)
    captured = [numbers.normal(5, 32).to(torch.bfloat16) for _ in range(2)]
    frames = torch.arange(5, device=DEVICE)
    assert watched(lambda: block.model.window_rows(captured, frames)).findings == []


@both
def test_a_drawn_chain_is_safe(kernels: str) -> None:
    """If this fails, a sampled step with the true draft model cannot be captured."""
    numbers = Numbers(1)
    logits, bonus = numbers.normal(4, 3, 20), numbers.ints(0, 19, 4)
    w1, w2 = numbers.normal(20, 5), numbers.normal(20, 5)
    heat = torch.ones(4, device=DEVICE)
    drawing = Drawing(numbers.flags(4), heat, numbers.uniform(4, 3))
    chain = markov_chain_sampled if kernels == "eager" else by_kernels
    assert watched(lambda: chain(logits, bonus, w1, w2, drawing)).findings == []


@both
@pytest.mark.parametrize("method", ["block_hidden", "attention", "chain", "confidence"])
def test_one_value_read_anywhere_is_found(
    monkeypatch: pytest.MonkeyPatch, kernels: str, method: str
) -> None:
    """If this fails, the tests above are green whatever the model does."""
    whole = getattr(DraftModel, method)

    def reads(self: DraftModel, *given: Any) -> object:
        next(x for x in given if isinstance(x, Tensor)).max().item()
        return whole(self, *given)

    monkeypatch.setattr(DraftModel, method, reads)
    watch = watched(make_block(DRAFT_SIZES, 3, DEVICE.type, kernels).run)
    assert set(watch.operations) == {"_local_scalar_dense"}
