"""Memory that nobody wrote is poison: nothing of it is used, and whoever uses it is found out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from batches import gen, make_batch
from torch import Tensor

from draftproof.fuzz.cases import Subject
from draftproof.gpu.inputs import Inputs
from draftproof.gpu.kernels.launching import launch
from draftproof.gpu.operations import Verified
from draftproof.gpu.options import read_options
from draftproof.gpu.static import POISON_BYTE, POISON_INTEGER, Field, StaticArrays
from draftproof.gpu.worker import DSparkWorker, make
from draftproof.reference.vocabulary import Collaborators, Config
from draftproof.sim.choices import Seeded
from draftproof.sim.configs import choose_config
from draftproof.sim.divergence import Divergence
from draftproof.sim.lockstep import check
from draftproof.sim.run import simulate

CPU = torch.device("cpu")
SAMPLED = Config(3, 8, 2, 4, 6, use_rejection_sampling=True, graph_batch_sizes=(2, 4))
RAGGED = Config(3, 8, 2, 4, confidence_scheduling=True, graph_batch_sizes=(2, 4))


@pytest.fixture
def _empty_is_poison() -> Iterator[None]:
    """`torch.empty` gives NaN, or the largest integer; torch's own switch imports its compiler."""
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    assert torch.empty(1).isnan().all()
    yield
    torch._C._set_deterministic_algorithms(False)


# ---- what is poisoned


def test_static_arrays_are_poison_where_a_step_did_not_write() -> None:
    """If this fails, a step finds in its inputs what an earlier step left there."""
    fields = [Field("f", torch.float32, 3), Field("b", torch.int8, 5), Field("i", torch.int64, 3)]
    arrays = StaticArrays(fields, CPU, poisoned=True)
    for _ in range(2):
        assert arrays.device["f"].isnan().all()
        assert arrays.device["b"].tolist() == [POISON_BYTE] * 5
        assert arrays.device["i"].tolist() == [POISON_INTEGER] * 3
        arrays.begin()
        arrays.host["f"][:1], arrays.host["b"][:2], arrays.host["i"][:2] = 1, (2, 3), (4, 5)
        arrays.send("i", 2)
        assert arrays.device["f"].nan_to_num(9).tolist() == [1, 9, 9]
        assert arrays.device["b"].tolist() == [2, 3, *[POISON_BYTE] * 3]
        assert arrays.device["i"].tolist() == [4, 5, POISON_INTEGER]
        arrays.begin()
        arrays.send("f", 0)  # poisoned arrays travel whole


def test_without_poison_arrays_keep_what_they_had() -> None:
    """If this fails, an engine pays for poison, or a step's small arrays for its large ones."""
    arrays = StaticArrays(
        [Field("a", torch.int64, 2, start=7), Field("z", torch.int64, 2)], CPU, poisoned=False
    )
    assert (arrays.device["a"].tolist(), arrays.device["z"].tolist()) == ([7, 7], [0, 0])
    arrays.begin()
    arrays.host["a"][0] = arrays.host["z"][0] = 1
    arrays.send("a", 2)
    assert (arrays.device["a"].tolist(), arrays.device["z"].tolist()) == ([1, 7], [0, 0])


def test_arrays_stay_where_they_are(worker: Callable[..., DSparkWorker]) -> None:
    """If this fails, a graph reads where an earlier step's inputs were."""
    ours = worker(use_rejection_sampling=True)
    places = {name: array.data_ptr() for name, array in ours.inputs.arrays.device.items()}
    for count in (1, 3):
        batch = make_batch(*(gen(1 + i, 3, seq_slot=i) for i in range(count)), r=3)
        ours.prepare(batch)
        ours.forward(batch)
        inputs = ours.inputs.read(batch, ours.operations.uniforms)
        assert inputs.drafts.data_ptr() == places["drafts"]
        assert inputs.target.data_ptr() == places["target_tokens"]
        assert ours.memory.batch_to_slot.data_ptr() == places["batch_to_slot"]
    assert {k: v.data_ptr() for k, v in ours.inputs.arrays.device.items()} == places


def test_the_tail_of_batch_to_slot_is_out_of_range(worker: Callable[..., DSparkWorker]) -> None:
    """If this fails, a row past the batch reads somebody's slot, and nothing shows it."""
    ours, rows = worker(), [gen(1, 3), gen(2, 3, seq_slot=1), gen(3, 3, seq_slot=2)]
    assert ours.memory.batch_to_slot.tolist() == [POISON_INTEGER] * 4
    assert worker(poison=False).memory.batch_to_slot.tolist() == [4] * 4
    for batch in (make_batch(*rows, r=3), make_batch(rows[1], r=3)):
        ours.prepare(batch)
        ours.forward(batch)
    assert ours.memory.batch_to_slot.tolist() == [1, *[POISON_INTEGER] * 3]


# ---- nothing of it is used


@pytest.mark.interpreted
@pytest.mark.usefixtures("_empty_is_poison")
@pytest.mark.parametrize("graphs", ["off", "on"])
@pytest.mark.parametrize(("kernels", "cases"), [("eager", 40), ("triton", 3)])
def test_nothing_that_nobody_wrote_is_used(kernels: str, cases: int, graphs: str) -> None:
    """If this fails, some step depends on memory that it did not write."""
    options = {"kernels": kernels, "graphs": graphs}
    subject = Subject(lambda config, lent: make(config, "cpu", lent, **options))
    for seed in range(cases):
        choices = Seeded(7_000 + seed)
        subject.judge(simulate(replace(choose_config(choices), poison=True), choices, 30))


# ---- whoever uses it is found out


class ReadsASlotTooFar(DSparkWorker):
    """Looks up the counter of one row past the batch, and makes nothing of it."""

    def _verify(self, inputs: Inputs) -> Verified:
        beyond = self.memory.ctx_len[self.memory.batch_to_slot[self.rows % 4]]
        verified = super()._verify(inputs)
        return verified._replace(start=verified.start + 0 * beyond)


class ReadsANumberTooFar(DSparkWorker):
    """Adds nothing of the random number behind the batch's last one."""

    def _verify(self, inputs: Inputs) -> Verified:
        sampling, rows = inputs.sampling, len(inputs.positions)
        if sampling is not None and rows < 4:
            beyond = self.inputs.arrays.device["recover_uniforms"][rows]
            uniforms = sampling.accept_uniforms + 0 * beyond
            inputs = inputs._replace(sampling=sampling._replace(accept_uniforms=uniforms))
        return super()._verify(inputs)


@triton.jit  # type: ignore[untyped-decorator]  # Triton has no types
def one_too_many(into: Any, numbers: Any, count: Any, BLOCK: tl.constexpr) -> None:
    """Copies numbers, and adds nothing of the one behind each."""
    i = tl.arange(0, BLOCK)
    here, beyond = tl.load(numbers + i, mask=i < count), tl.load(numbers + i + 1, mask=i < count)
    tl.store(into + i, here + 0 * beyond, mask=i < count)


class KernelReadsANumberTooFar(DSparkWorker):
    """Lets a kernel copy the random numbers of this batch, whose mask is one too wide."""

    def _verify(self, inputs: Inputs) -> Verified:
        sampling = inputs.sampling
        if sampling is not None and inputs.drafts.numel():
            numbers = sampling.accept_uniforms
            copied = torch.empty_like(numbers)
            launch(one_too_many, (1,), copied, numbers, numbers.numel(), BLOCK=32)
            inputs = inputs._replace(sampling=sampling._replace(accept_uniforms=copied))
        return super()._verify(inputs)


class ReadsUnsetProbabilities(DSparkWorker):
    """Adds nothing of the draft probabilities of placeholders."""

    def _verify(self, inputs: Inputs) -> Verified:
        probs, sampling = self.memory.draft_probs, inputs.sampling
        if sampling is not None and probs is not None:
            unset = probs[inputs.generation_seq_slots].sum((1, 2)).unsqueeze(1)
            uniforms = sampling.accept_uniforms + 0 * unset
            inputs = inputs._replace(sampling=sampling._replace(accept_uniforms=uniforms))
        return super()._verify(inputs)


class ReadsARowTooFar(DSparkWorker):
    """Of ragged rows, takes the packed one behind the last as a component of a hidden row."""

    def _store(self, inputs: Inputs, verified: Verified) -> None:
        if inputs.windows is not None:
            packed = self.inputs.arrays.device["hidden"].view(-1, 7)
            beyond = packed[inputs.windows.sum().clamp(max=len(packed) - 1)].clamp(max=0)
            inputs = inputs._replace(hidden=inputs.hidden + beyond.to(inputs.hidden.dtype))
        super()._store(inputs, verified)


class MasksByMultiplying(DSparkWorker):
    """Adds nothing of columns that are not visible."""

    def _draft(self, inputs: Inputs, verified: Verified) -> Tensor:
        windows = self.memory.windows[self._generation_slots(inputs)]
        nothing = (0 * windows.float()).sum((1, 2, 3))
        return super()._draft(inputs, verified) + nothing.unsqueeze(1).to(torch.int64)


PLANTED = [
    (ReadsASlotTooFar, SAMPLED, "exception IndexError"),
    (ReadsANumberTooFar, SAMPLED, "comparison new_tokens_lens"),
    (KernelReadsANumberTooFar, SAMPLED, "comparison new_tokens_lens"),
    (ReadsUnsetProbabilities, SAMPLED, "comparison new_tokens_lens"),
    (ReadsARowTooFar, RAGGED, "comparison windows"),
    (MasksByMultiplying, SAMPLED, "comparison next_draft_tokens"),
]


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("planted", "config", "signature"), PLANTED, ids=[kind.__name__ for kind, *_ in PLANTED]
)
def test_one_cell_read_is_found_by_its_poison(
    planted: type[DSparkWorker], config: Config, signature: str
) -> None:
    """If this fails, poison has lost its bite; without it none of these reads shows."""

    def start(config: Config, lent: Collaborators) -> DSparkWorker:
        return planted(config, CPU, lent, read_options())

    def steps(config: Config) -> int:
        runs = [simulate(config, Seeded(seed), 60) for seed in range(3)]
        return sum(check(run, start).steps for run in runs)

    assert steps(config) > 60
    with pytest.raises(Divergence) as caught:
        steps(replace(config, poison=True))
    assert " ".join(caught.value.signature) == signature
