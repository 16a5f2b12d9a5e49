"""Captured graphs of the generation path: on a CPU by recorded calls, through the same code."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import product
from typing import Any

import pytest
from batches import gen, make_batch, sampled
from device import DEVICE
from torch import Tensor

from draftproof.fuzz.cases import Subject, seeded_case
from draftproof.gpu.graphs import key_of
from draftproof.gpu.inputs import Inputs
from draftproof.gpu.operations import Verified
from draftproof.gpu.recorded_calls import CaptureError
from draftproof.gpu.worker import DSparkWorker
from draftproof.reference.vocabulary import PADDING_ID_BASE, SEAMS, Batch, Mode, StepResult
from draftproof.sim.loading import load

Start = Callable[..., DSparkWorker]
Build = Callable[..., Batch]
KINDS = ("greedy", "ragged", "sampled", "drawn")
UNIFORMS = ("accept_uniforms", "recover_uniforms", "draft_uniforms")
ON = {"graphs": "on"}


def run(worker: DSparkWorker, batch: Batch) -> StepResult:
    worker.prepare(batch)
    return worker.forward(batch)


def listed(result: StepResult) -> dict[str, Any]:
    return {k: v.tolist() if hasattr(v, "tolist") else v for k, v in asdict(result).items()}


def everything(worker: DSparkWorker) -> str:
    """The whole state as text: NaN equals NaN there."""
    state = worker.state()
    probs = None if state.draft_probs is None else state.draft_probs.tolist()
    return repr(replace(state, draft_probs=probs))


def captured(worker: DSparkWorker, batch: Batch) -> bool:
    key = key_of(batch)
    assert key is not None
    assert worker.graphs is not None
    return key in worker.graphs


def step(
    kind: str, r: int, rows: Sequence[tuple[int, int]], number: int, mode: Mode = "replay"
) -> Batch:
    """Requests (id, position) padded to four rows; every number depends on that of the step."""
    real = [gen(i, at, i, seq_slot=i, proposed=r, seed=number + i) for i, at in rows]
    padding = gen(PADDING_ID_BASE - r, r, 0, seq_slot=4)
    size, windows = 4, None
    everybody = [*real, *[padding] * (size - len(real))]
    if kind == "ragged":
        widths = [1 + (number + g) % (1 + r) for g in range(len(real))]
        windows = (*widths, *[1] * (size - len(real)))
    counts = [1 + (number * g) % w for g, w in enumerate(windows or [1 + r] * size)]
    more: dict[str, Any] = {"counts": counts, "verify_lens": windows, "step": number}
    if kind in ("greedy", "ragged"):
        return make_batch(*everybody, r=r, mode=mode, **more)
    numbers: dict[str, Any] = {"accept": (1 + number % 4) / 4, "recover": (1 + number % 3) / 4}
    drawn = [(1 + (number + i) % 8) / 8 for i in range(size * 3)]
    batch = sampled(*everybody, r=r, mode=mode, draft=drawn, **numbers, **more)
    mixed = tuple(replace(row, greedy=bool(row.request_id % 2)) for row in batch.generations)
    drafts = array("q", [(number + i) % 8 for i in range(size * r)])
    given: dict[str, Any] = dict.fromkeys(UNIFORMS) if kind == "drawn" else {}
    return replace(batch, generations=mixed, drafts=drafts, **given)


def schedule(kind: str, lengths: Sequence[int], mode: Mode) -> list[Batch]:
    """Requests come, swap places, leave and return, so that slots, counts and contents change."""
    present = [(0,), (0, 1), (1, 0), (2, 1), (3, 2, 1), (1, 2, 3, 0), (0,), (2, 0)]
    return [
        step(kind, lengths[n % len(lengths)], [(1 + i, 3 + 4 * n) for i in ids], n, mode)
        for n, ids in enumerate(present)
    ]


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("kernels", "lengths"),
    [*product(["eager"], [(3,), (2, 1), (0,), (0, 3, 1)]), *product(["triton"], [(3,), (2, 0)])],
)
@pytest.mark.parametrize("kind", KINDS)
def test_replays_do_what_eager_steps_do(
    worker: Start, kind: str, kernels: str, lengths: tuple[int, ...]
) -> None:
    """If this fails, something of one step is frozen in the graph of later ones: I11."""
    settings = {"use_rejection_sampling": True, "vocab_size": 8, "max_num_requests": 5}
    ours = worker(options={"kernels": kernels, **ON}, **settings)
    eager = worker(options={"kernels": kernels}, **settings)
    pairs = zip(schedule(kind, lengths, "replay"), schedule(kind, lengths, "eager"), strict=True)
    for batch, same in pairs:
        assert listed(run(ours, batch)) == listed(run(eager, same))
        assert everything(ours) == everything(eager)
    assert all(captured(ours, batch) for batch in schedule(kind, lengths, "replay"))


@pytest.mark.parametrize("seam", [None, *SEAMS])
@pytest.mark.parametrize("kind", KINDS)
def test_a_capture_leaves_no_trace(worker: Start, kind: str, seam: str | None) -> None:
    """If this fails, capturing a graph between two steps changes what follows."""
    armed = False

    def at(name: str) -> None:
        if armed and name == seam:
            raise ZeroDivisionError

    ours = worker(at, ON, use_rejection_sampling=True, vocab_size=8)
    run(ours, step(kind, 3, [(1, 3), (2, 5)], 0, mode="eager"))
    before, armed = everything(ours), True
    batch = step(kind, 3, [(3, 9), (2, 5)], 1, mode="capture")
    ours.prepare(batch)
    if seam is None:
        result = ours.forward(batch)
        assert [list(part.shape) for part in (result.new_tokens, result.next_new_tokens)] == [
            [4, 4]
        ] * 2
    else:
        with pytest.raises(ZeroDivisionError):
            ours.forward(batch)
    assert everything(ours) == before
    assert captured(ours, batch) == (seam in (None, "publish"))


@pytest.mark.parametrize("seam", SEAMS)
def test_a_replay_that_fails_is_forgotten_like_any_step(worker: Start, seam: str) -> None:
    """If this fails, a fault around a replay reaches the requests of later steps."""
    armed = True

    def at(name: str) -> None:
        if armed and name == seam:
            raise ZeroDivisionError

    ours, eager = worker(at, ON), worker()
    batch = step("greedy", 3, [(1, 3), (2, 5)], 0)
    ours.prepare(batch)
    with pytest.raises(ZeroDivisionError):
        ours.forward(batch)
    armed = False
    run(eager, step("greedy", 3, [(1, 3), (2, 5)], 0, mode="eager"))
    empty = make_batch()
    run(ours, empty)
    run(eager, empty)
    for number in (1, 2):
        rows = [(3, 4 + number)]
        assert listed(run(ours, step("greedy", 3, rows, number))) == listed(
            run(eager, step("greedy", 3, rows, number, "eager"))
        )
        assert ours.state().windows == eager.state().windows


def test_every_kind_of_step_has_a_graph_of_its_own() -> None:
    """If this fails, a graph is replayed for a step that it was not captured for."""
    rows = [(1, 3), (2, 5)]
    keys = {key_of(step(kind, r, rows, 0)) for kind in KINDS for r in range(4)}
    assert len(keys) == 4 * len(KINDS)
    assert key_of(step("greedy", 3, [(1, 9)], 5, "capture")) in keys  # contents do not matter
    assert key_of(make_batch(gen(1, 3), r=3, mode="replay")) not in keys


def test_only_generation_steps_that_say_so_are_graphed(build: Build) -> None:
    """If this fails, a prompt is frozen in a graph, or an eager step is replayed."""
    rows = [(7, 1, 3, 2)]
    assert key_of(build(3, generations=rows, mode="replay")) is not None
    for mode in ("eager", "warmup"):
        assert key_of(build(3, generations=rows, mode=mode)) is None
    assert key_of(build(3, [(8, 2, 0, 2)], rows, mode="capture")) is None
    assert key_of(build(3, mode="replay")) is None


def test_without_graphs_a_replay_is_an_eager_step(worker: Start) -> None:
    """If this fails, the option is not what decides."""
    ours = worker()
    assert ours.graphs is None
    assert listed(run(ours, step("greedy", 3, [(1, 3)], 0))) == listed(
        run(worker(options=ON), step("greedy", 3, [(1, 3)], 0))
    )


def test_a_result_is_not_changed_by_the_next_replay(worker: Start) -> None:
    """If this fails, an engine that reads results late reads those of another step."""
    ours = worker(options=ON)
    first = run(ours, step("greedy", 3, [(1, 3), (2, 5)], 1))
    before = listed(first)
    run(ours, step("greedy", 3, [(2, 6), (1, 5)], 2))
    assert listed(first) == before


def test_a_capture_that_fails_is_not_kept(monkeypatch: pytest.MonkeyPatch, worker: Start) -> None:
    """If this fails, half a graph is replayed."""
    whole = DSparkWorker._draft

    def reads(self: DSparkWorker, inputs: Inputs, verified: Verified) -> Tensor:
        verified.start.max().item()
        return whole(self, inputs, verified)

    ours, batch = worker(options=ON), step("greedy", 3, [(1, 3)], 0)
    with monkeypatch.context() as patched:
        patched.setattr(DSparkWorker, "_draft", reads)
        ours.prepare(batch)
        with pytest.raises(CaptureError, match="reads a value back to the host"):
            ours.forward(batch)
    assert not captured(ours, batch)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_schedules(first: int) -> None:
    """If this fails, graphs change what a step does under some schedule."""
    subject = Subject(load("draftproof.gpu.worker:make", DEVICE.type, ON))
    for index in range(first, first + 20):
        subject.judge(seeded_case(11, index))
