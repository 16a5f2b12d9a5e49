"""A case is gone as soon as it is checked, and a campaign that grows is seen to."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command import MODEL

from draftproof.fuzz.bench.memory import TOLERANCE, measure
from draftproof.fuzz.bench.sizes import QUICK
from draftproof.fuzz.cases import Subject, seeded_case
from draftproof.fuzz.ranks.cases import RankSubject, seeded_world
from draftproof.gpu.worker import make
from draftproof.sim.engine import Engine
from draftproof.sim.faults import Faults
from draftproof.sim.lockstep import MakeWorker

CASES = 12
BULK = {"Run", "Batch", "Expected", "Fed", "StepResult", "WorkerState", "Tensor", "DSparkWorker"}
"""What a case consists of, for the most part."""


def torch_worker(config: Any, collaborators: Any) -> Any:
    return make(config, "cpu", collaborators)


def left_behind(work: Callable[[], object]) -> Counter[str]:
    """What of the work is out of reach, but not gone: kinds of objects in cycles."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        work()
        gc.collect()
        return Counter(type(left).__name__ for left in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.collect()


def cases(worker: MakeWorker | None, make_engine: Any = Engine) -> Callable[[], None]:
    def work() -> None:
        for index in range(CASES):
            Subject(worker, step_timeout=60.0).judge(seeded_case(0, index, make_engine))

    return work


@pytest.mark.parametrize("worker", [None, torch_worker])
def test_nothing_of_a_case_waits_for_the_collector(worker: MakeWorker | None) -> None:
    """If this fails, campaigns grow by whole runs, until Python comes to look for cycles."""
    left = left_behind(cases(worker))
    assert not BULK & set(left), left
    assert left.total() < 100 * CASES, left


def test_nor_does_anything_of_ranks() -> None:
    """If this fails, the same of campaigns over ranks, whose engines know each other."""

    def work() -> None:
        for index in range(4):
            RankSubject(torch_worker, step_timeout=60.0).judge_world(seeded_world(0, index))

    left = left_behind(work)
    assert not BULK & set(left), left


class Cyclic(Engine):
    """Knows itself, and so all of its run."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.myself = self


def test_a_cycle_in_the_engine_is_seen() -> None:
    """If this fails, the test above holds for anything that refers back to its run."""
    assert {"Batch", "Fed"} <= set(left_behind(cases(None, Cyclic)))


def test_a_cycle_in_the_lockstep_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the test above holds if what looks on at a worker's seams stays there."""
    monkeypatch.setattr(Faults, "forget", lambda faults: None)
    assert {"DSparkWorker", "Tensor"} <= set(left_behind(cases(torch_worker)))


@pytest.mark.parametrize(
    ("implementation", "met"),
    [(MODEL, True), (f"{Path(__file__).parent / 'data' / 'faulty.py'}:Leaks", False)],
)
def test_a_campaign_that_grows_misses_its_goal(implementation: str, met: bool) -> None:
    """If this fails, the figure is within its bound whatever a worker keeps."""
    sizes = replace(QUICK, warm_steps=2_000, steps=8_000)  # a tenth holds more than a large case
    used, growth = measure(sizes, "--implementation", implementation)
    assert growth.goal is TOLERANCE
    assert TOLERANCE.met(growth.value) is met, (used.value, growth.value)
