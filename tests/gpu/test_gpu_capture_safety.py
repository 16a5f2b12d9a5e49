"""The generation path holds nothing that a CUDA graph could not: seen without a GPU."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from batches import gen, make_batch, sampled
from torch import Tensor

from draftproof.gpu.capture_safety import CaptureWatch, problem
from draftproof.gpu.inputs import Inputs
from draftproof.gpu.operations import Verified
from draftproof.gpu.worker import DSparkWorker
from draftproof.reference.vocabulary import IDLE_ID, PADDING_ID_BASE, Batch

Start = Callable[..., DSparkWorker]
BLOCK = 3
KINDS = ("greedy", "ragged", "sampled", "ragged and sampled", "drawn", "idle")
UNIFORMS = ("accept_uniforms", "recover_uniforms", "draft_uniforms")


def generations(kind: str, r: int) -> Batch:
    """Two requests and two rows of padding, or an idle row; K = 3, V = 8."""
    if kind == "idle":
        return make_batch(gen(IDLE_ID, 3, seq_slot=4), r=r)
    padding = gen(PADDING_ID_BASE - r, r, incarnation=0, seq_slot=4)
    rows = gen(7, 3, proposed=r), gen(8, 5, 2, seq_slot=1, proposed=max(0, r - 1)), *[padding] * 2
    windows: dict[str, Any] = {"verify_lens": (1 + r, 1, 1, 1)} if "ragged" in kind else {}
    if kind in ("greedy", "ragged"):
        return make_batch(*rows, r=r, **windows)
    batch = sampled(*rows, r=r, draft=[0.5] * (4 * BLOCK), **windows)
    mixed = (replace(batch.generations[0], greedy=False), *batch.generations[1:])
    given: dict[str, Any] = dict.fromkeys(UNIFORMS) if kind == "drawn" else {}
    return replace(batch, generations=mixed, **given)


@pytest.mark.interpreted
@pytest.mark.parametrize("kernels", ["eager", "triton"])
@pytest.mark.parametrize(("kind", "r"), [*product(KINDS, range(BLOCK + 1))])
def test_the_generation_path_is_safe(worker: Start, kernels: str, kind: str, r: int) -> None:
    """If this fails, a CUDA graph cannot hold the generation path: the message says what, where."""
    ours = worker(options={"kernels": kernels}, use_rejection_sampling=True, vocab_size=8)
    for _ in range(2):  # the first forward makes what all later ones share
        batch = generations(kind, r)
        ours.prepare(batch)
        with CaptureWatch() as watch:
            ours.forward(batch)
    assert watch.findings == []


@pytest.mark.interpreted
@pytest.mark.parametrize("kernels", ["eager", "triton"])
@pytest.mark.parametrize("method", ["_verify", "_store", "_draft", "_generation_slots"])
def test_one_value_read_anywhere_is_found(
    monkeypatch: pytest.MonkeyPatch, worker: Start, kernels: str, method: str
) -> None:
    """If this fails, the test above is green whatever the worker does."""
    whole = getattr(DSparkWorker, method)

    def reads(self: DSparkWorker, inputs: Inputs, *more: Verified) -> object:
        inputs.positions.max().item()
        return whole(self, inputs, *more)

    ours, batch = worker(options={"kernels": kernels}), generations("greedy", BLOCK)
    ours.prepare(batch)
    ours.forward(batch)  # makes what all later ones share
    monkeypatch.setattr(DSparkWorker, method, reads)
    ours.prepare(batch)
    with CaptureWatch() as watch:
        ours.forward(batch)
    assert set(watch.operations) == {"_local_scalar_dense"}
    assert {finding.where.rpartition(":")[0] for finding in watch.findings} == {__file__}


def branches(values: Tensor) -> None:
    if values.any():
        values.add_(1)


def writes_by_mask(values: Tensor) -> None:
    values[values > 1] = 0


UNSAFE: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "item": (lambda x: x.max().item(), "_local_scalar_dense"),
    "bool": (branches, "_local_scalar_dense"),
    "int": (lambda x: int(x[0]), "_local_scalar_dense"),
    "index of a list": (lambda x: [1, 2][x.long()[0]], "_local_scalar_dense"),
    "in": (lambda x: 3 in x, "_local_scalar_dense"),
    "equal": (lambda x: torch.equal(x, x + 1), "equal"),
    "allclose": (lambda x: torch.allclose(x, x), "allclose"),
    "tolist": (lambda x: x.tolist(), "tolist"),
    "numpy": (lambda x: x.numpy(), "numpy"),
    "cpu": (lambda x: x.cpu(), "cpu"),
    "to": (lambda x: x.to("cpu"), "to"),
    "to, the device by its name": (lambda x: x.to(device="cpu:0", dtype=torch.int64), "to"),
    "there and back": (lambda x: (x.to("cpu") + 0).to(x.device), "to"),
    "format": (lambda x: f"{x}", "__format__"),
    "print": (lambda x: print(x, file=io.StringIO()), "__repr__"),
    "repr": (repr, "__repr__"),
    "pickle": (pickle.dumps, "save"),
    "save": (lambda x: torch.save(x, io.BytesIO()), "save"),
    "nonzero": (lambda x: x.nonzero(), "nonzero"),
    "where with one argument": (lambda x: torch.where(x > 1), "nonzero"),
    "read by mask": (lambda x: x[x > 1], "index"),
    "write by mask": (writes_by_mask, "index_put_"),
    "masked_select": (lambda x: x.masked_select(x > 1), "masked_select"),
    "unique": (lambda x: torch.ops.aten._unique2(x), "_unique2"),
    "repeat_interleave": (lambda x: x.repeat_interleave(x.long()), "repeat_interleave"),
    "bincount": (lambda x: x.long().bincount(), "bincount"),
    "tensor": (lambda x: x + torch.tensor(1.0), "tensor"),
    "frombuffer": (lambda x: torch.frombuffer(bytearray(8), dtype=torch.int64), "frombuffer"),
}


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", UNSAFE)
def test_what_is_not_safe_is_found(name: str, inference: bool) -> None:
    """If this fails, a graph would break, or freeze a value, and no test would say so."""
    call, operation = UNSAFE[name]
    values = torch.arange(4.0)
    with torch.inference_mode(inference), CaptureWatch() as watch:
        call(values)
    assert set(watch.operations) == {operation}
    assert watch.findings[0].where.startswith(f"{__file__}:")


def test_what_is_safe_is_not_found() -> None:
    """If this fails, the watch forbids what a graph can hold."""
    values, index = torch.arange(4.0), torch.tensor([1, 2])
    with torch.inference_mode(), CaptureWatch() as watch:
        values[index] = values[index] + 1
        values[index] = 2
        values.index_fill_(0, index, 3)
        torch.where(values > 1, values, 0).cumsum(0).sum()
        torch.zeros(2, 4).scatter_add_(1, index.view(2, 1), values[:2].view(2, 1))
        torch.empty(3).copy_(values[:3])
        values.masked_fill(values > 1, 0).unsqueeze(0).expand(2, -1).reshape(-1).to(torch.int64)
        values.to(values.device).to(index).to(torch.float64, copy=True).to(device=index.device)
        torch.stack([torch.arange(4.0), torch.full((4,), 2.0)]).gather(1, index.view(2, 1))
    assert watch.findings == []


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [("meta", "cpu", "back to the host"), ("cpu", "meta", "frozen"), ("cpu", "cpu", None)],
)
def test_copies_between_host_and_device_are_not_safe(
    source: str, target: str, reason: str | None
) -> None:
    """If this fails, a copy that a GPU's capture refuses is allowed; "meta" stands for a GPU."""
    ops, here = torch.ops.aten, torch.empty(2, device=source)
    there = torch.empty(2, device=target)
    copies = problem(ops._to_copy.default, (here,), {"device": target})
    writes = problem(ops.copy_.default, (there, here, False), {})
    assert copies == writes
    assert reason in copies if reason and copies else copies is None


def test_a_copy_from_page_locked_memory_is_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a GPU's step is refused for bringing its inputs there, or one that waits is
    not.
    """
    copy, (here, there) = torch.ops.aten.copy_.default, (torch.empty(2), torch.empty(2).to("meta"))
    assert problem(copy, (there, here, True), {}) is not None
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: True)
    assert problem(copy, (there, here, True), {}) is None
    assert problem(copy, (there, here), {"non_blocking": True}) is None
    assert problem(copy, (there, here, False), {}) is not None
    assert problem(copy, (there, here), {}) is not None


def test_a_watch_ends_with_its_block_and_lets_exceptions_pass() -> None:
    """If this fails, one test's watch sees, or hides, what another does."""
    watch = CaptureWatch()
    with pytest.raises(ZeroDivisionError), watch:
        raise ZeroDivisionError
    torch.arange(3).max().item()
    assert watch.findings == []
