"""The worker with `-o kernels=triton`, in lockstep with the model and over the recordings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftproof.fuzz.cases import Subject
from draftproof.fuzz.driving.wide import WIDE, wide_case
from draftproof.reference.vocabulary import Config
from draftproof.sim.choices import Seeded
from draftproof.sim.divergence import Divergence
from draftproof.sim.loading import load
from draftproof.sim.recordings import validate
from draftproof.sim.run import simulate

pytestmark = pytest.mark.interpreted

RECORDINGS = sorted((Path(__file__).parents[1] / "data" / "recordings").glob("*.jsonl"))
SMALL = Config(
    max_draft_len=3, window_size=5, num_stages=2, max_num_requests=4, max_num_tokens=40, poison=True
)
SCHEDULE = ((1, 3), (2, 0), (3, 2))


def config(**changes: Any) -> Config:
    return replace(SMALL, **changes)


CASES = {
    "forced lengths": config(graph_batch_sizes=(2, 4)),
    "window below the block": config(window_size=2, max_draft_len=7, max_num_tokens=99),
    "window of 1, one stage": config(window_size=1, num_stages=1, vocab_size=8),
    "ragged": config(confidence_scheduling=True, graph_batch_sizes=(1, 4)),
    "rejection sampling": config(use_rejection_sampling=True, vocab_size=6),
    "rejection sampling, schedule": config(
        use_rejection_sampling=True, vocab_size=6, draft_len_schedule=SCHEDULE
    ),
    "block of 1": config(max_draft_len=1, use_rejection_sampling=True, vocab_size=6),
    "autonomous": config(target="autonomous", vocab_size=3, draft_len_schedule=SCHEDULE),
}
EVENTS = 60


def test_all_recordings_are_here() -> None:
    """If this fails, the test below proves less than it says."""
    assert len(RECORDINGS) == 192


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recording(path: Path) -> None:
    """If this fails, kernels leave other slots, counters or frames than a live worker's."""
    worker = load("draftproof.gpu.worker:make", "cpu", {"kernels": "triton"})
    assert validate(path, worker) > 0


@pytest.mark.parametrize("index", range(len(WIDE)), ids=list(WIDE))
def test_kernels_are_right_at_large_sizes(index: int) -> None:
    """If this fails, a kernel is wrong where a size no longer fits its tile."""
    worker = load("draftproof.gpu.worker:make", "cpu", {"kernels": "triton"})
    assert Subject(worker).judge(wide_case(0, index)).steps > 10


@pytest.mark.parametrize("graphs", ["off", "on"])
@pytest.mark.parametrize("name", CASES)
def test_lockstep(name: str, graphs: str) -> None:
    """If this fails, the worker on kernels differs from the model in a result or in its state."""
    worker = load("draftproof.gpu.worker:make", "cpu", {"kernels": "triton", "graphs": graphs})
    run = simulate(CASES[name], Seeded(len(name)), EVENTS)
    assert Subject(worker).judge(run).steps > EVENTS // 3


def test_lockstep_finds_a_defect_on_kernels() -> None:
    """If this fails, comparison with the model does not reach the kernels' results."""
    defect = "draftproof.gpu.defects.windows:RejectedRowStored"
    run = simulate(CASES["forced lengths"], Seeded(1), EVENTS)
    with pytest.raises(Divergence) as raised:
        Subject(load(defect, "cpu", {"kernels": "triton"})).judge(run)
    assert raised.value.oracle == "comparison"
