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
from draftproof.gpu.draft_model.heads import Drawing
from draftproof.gpu.draft_model.model import DraftModel
from draftproof.gpu.kernels.launching import launching_by
from draftproof.gpu.measured import make_block
from draftproof.gpu.operations import Accepted

pytestmark = pytest.mark.interpreted
both = pytest.mark.parametrize("kernels", ["eager", "triton"])


def drawn_chain(model: DraftModel) -> object:
    """Three positions of four requests, greedy ones among them."""
    numbers, shape = Numbers(1), model.shape
    logits, bonus = numbers.normal(4, 3, shape.vocab), numbers.ints(0, shape.vocab - 1, 4)
    heat = torch.ones(4, device=DEVICE)
    drawing = Drawing(numbers.flags(4), heat, numbers.uniform(4, 3))
    return model.chain_sampled(logits, bonus, drawing)


def stored_rows(model: DraftModel) -> None:
    """Four rows of each of two requests, some of them accepted."""
    numbers, shape = Numbers(2), model.shape
    windows = numbers.normal(4, shape.stages, shape.window, shape.head_dim).to(torch.bfloat16)
    rows = numbers.normal(2, 4, shape.stages, shape.head_dim).to(torch.bfloat16)
    slots, old, counts = (
        torch.arange(2, device=DEVICE),
        numbers.ints(0, 30, 2),
        numbers.ints(1, 4, 2),
    )
    model.store(windows, None, Accepted(rows, slots, old, counts))


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
@pytest.mark.parametrize("path", [drawn_chain, stored_rows])
def test_a_drawn_chain_and_stored_rows_are_safe(
    kernels: str, path: Callable[[DraftModel], object]
) -> None:
    """If this fails, a sampled step with the true draft model cannot be captured."""
    model = make_block(DRAFT_SIZES, 3, DEVICE.type, kernels).model
    assert watched(lambda: path(model)).findings == []


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (drawn_chain, {"bias_kernel", "law_kernel", "draw_kernel"}),
        (stored_rows, {"write_normed_kernel"}),
    ],
    ids=["drawn chain", "stored rows"],
)
def test_the_option_decides_about_them_too(
    path: Callable[[DraftModel], object], names: set[str]
) -> None:
    """If this fails, a kernel is there that no setting makes a draft model use."""
    for kernels, expected in (("eager", set()), ("triton", names)):
        model = make_block(DRAFT_SIZES, 3, DEVICE.type, kernels).model
        launched: list[str] = []
        with launching_by(lambda kernel, *_, to=launched: to.append(kernel.__name__)):
            path(model)
        assert set(launched) == expected


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
