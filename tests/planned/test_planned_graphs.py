"""Planned steps under graphs: what a capture is keyed by, and that a plan never waits."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
import torch
from batches import lent
from planned.by_hand import START, scheduled
from schedules import play

from draftproof.gpu.capture_safety import CaptureWatch
from draftproof.gpu.defects.planted import Planted
from draftproof.gpu.graphs import Key
from draftproof.gpu.recorded_calls import RecordedCalls
from draftproof.gpu.worker import DSparkWorker, make
from draftproof.reference.vocabulary import Batch, BatchError, Collaborators, Config
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import Step, Warmup
from draftproof.sim.lockstep import check
from draftproof.sim.packing import before_target, to_plan
from draftproof.sim.run import Run

CONFIG = scheduled(graph_batch_sizes=(4,), verify_buckets=(8, 12, 24))
STOPPING = replace(CONFIG, sps_table=((8, 9.0), (12, 8.0), (24, 3.0)), early_stopping=True)
GROWING = (
    Step(age=1, budget=0, graph=True, accepts=(5,)),
    Step(age=1, budget=99, graph=True, accepts=(5,)),
    Step(age=1, budget=0, graph=True, accepts=(5,)),
)


class KeyWithoutBucket(Planted):
    """A graph captured for one token bucket serves all of them: GRAPH-9."""

    def _key(self, batch: Batch) -> Key | None:
        key = super()._key(batch)
        return key and key._replace(tokens=0)


def graphed(config: Config, collaborators: Collaborators) -> DSparkWorker:
    return make(config, "cpu", collaborators, graphs="on")


def prepared(run: Run) -> tuple[DSparkWorker, Batch]:
    """A worker before the last step of a run, and that step."""
    worker = make(run.config, "cpu", lent(run.config))
    for step in run.steps[:-1]:
        worker.prepare(before_target(step.batch))
        worker.forward(step.batch)
    worker.prepare(before_target(run.steps[-1].batch))
    return worker, run.steps[-1].batch


def test_each_bucket_has_a_graph_of_its_own() -> None:
    """If this fails, the device reads fewer packed rows than a step has, or waits to count them."""
    run = play(CONFIG, *START, *GROWING)
    assert [step.batch.verify_bucket for step in run.steps[-3:]] == [8, 24, 8]
    check(run, graphed)
    with pytest.raises(Divergence):
        check(run, lambda config, lent: KeyWithoutBucket(config, "cpu", lent, graphs="on"))


def test_a_graph_can_be_captured_before_it_is_needed() -> None:
    """If this fails, a bucket's first step pays for its capture, or replays nothing."""
    capture = Warmup(rows=3, capture=True, ragged=True)
    run = play(CONFIG, capture, *START, GROWING[1])
    batch = run.steps[0].batch
    assert (batch.mode, batch.verify_bucket, batch.verify_lens) == ("capture", 24, (6,) * 4)
    check(run, graphed)


@pytest.mark.parametrize("config", [CONFIG, STOPPING], ids=["budget", "early stopping"])
def test_a_plan_is_free_of_waiting_and_of_shapes_that_depend_on_values(config: Config) -> None:
    """If this fails, the plan cannot stand at the head of a captured graph."""
    worker, batch = prepared(play(config, *START, GROWING[0]))
    with torch.inference_mode():
        windows = worker.plan(to_plan(batch))
        ask = worker.planner.read(batch)
        with CaptureWatch() as watch:
            worker._windows(ask)
        assert watch.findings == []
        graph = RecordedCalls(lambda: worker._windows(ask))
        graph.replay()
        assert graph.result.tolist() == windows == list(batch.verify_lens or ())


def test_a_replayed_plan_follows_new_numbers() -> None:
    """If this fails, budget, slots or confidences are frozen at capture."""
    run = play(CONFIG, *START, Step(age=1, budget=5, graph=True), Step(age=1, budget=1))
    worker, batch = prepared(run)
    with torch.inference_mode():
        worker.plan(to_plan(batch))
        graph = RecordedCalls(lambda: worker._windows(worker.planner.read(batch)))
        for shift in range(3):
            table = array("f", batch.confidences or ())
            rolled = table[shift:] + table[:shift]
            other = to_plan(batch)
            other = replace(other, confidences=rolled, verify_budget=2 * shift)
            windows = worker.plan(other)
            graph.replay()
            assert graph.result.tolist() == windows


def test_a_plan_without_confidences_is_refused() -> None:
    """If this fails, a worker plans with what the last step left behind."""
    worker, batch = prepared(play(CONFIG, *START, GROWING[0]))
    with pytest.raises(BatchError, match="a plan needs 30 confidences"):
        worker.plan(before_target(batch))


def test_windows_that_miss_their_bucket_are_refused() -> None:
    """If this fails, a graph runs with rows that nobody owns."""
    worker, batch = prepared(play(CONFIG, *START, GROWING[0]))
    with pytest.raises(BatchError, match="8 token rows in a bucket of 12"):
        worker.forward(replace(batch, verify_bucket=12))
