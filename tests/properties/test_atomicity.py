"""Nothing of a failed or undone step is ever seen again, and the relations see it if it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from examples import share
from hypothesis import given
from planted.workers import Odd

from draftproof.fuzz.cases import seeded_case
from draftproof.properties.atomicity import Sites, check_fresh, check_later, check_undone
from draftproof.properties.strategies import runs
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import UNDONE, Batch, StepResult
from draftproof.sim.divergence import Divergence
from draftproof.sim.loading import load
from draftproof.sim.lockstep import MakeWorker
from draftproof.sim.run import Run

TORCH = load("draftproof.gpu.worker:make")
GRAPHS = load("draftproof.gpu.worker:make", options={"graphs": "on"})
Relation = Callable[[Run, MakeWorker], Sites]

pytestmark = pytest.mark.timeout(900)  # the profile `nightly` draws twenty times as many


@share(2)
@given(run=runs())
@pytest.mark.parametrize("relation", [check_fresh, check_later, check_undone])
def test_the_model_leaves_nothing_behind(relation: Relation, run: Run) -> None:
    """If this fails, the specification as code lets something of a failed step through."""
    relation(run, Model)


@share(1)
@given(run=runs())
@pytest.mark.parametrize("relation", [check_fresh, check_later, check_undone])
def test_the_worker_leaves_nothing_behind(relation: Relation, run: Run) -> None:
    """If this fails, later requests depend on a step that failed, or on a warm-up."""
    relation(run, TORCH)


@pytest.mark.parametrize("make", [Model, TORCH])
def test_most_of_a_campaign_is_compared(make: MakeWorker) -> None:
    """If this fails, the relations look at next to nothing."""
    cases = [seeded_case(2, index) for index in range(30)]
    assert sum(check_fresh(run, make).total() for run in cases) > 100
    assert sum(check_undone(run, make).total() for run in cases) > 300
    met = sum((check_later(run, make) for run in cases), Sites())
    assert met["result", "lost"] > 0
    assert sum(count for (_, kind), count in met.items() if kind == "cancel") > 15


@pytest.mark.parametrize(
    ("relation", "least"), [(check_fresh, 30), (check_later, 5), (check_undone, 30)]
)
def test_replays_and_captures_leave_nothing_behind(relation: Relation, least: int) -> None:
    """If this fails, buffers of a graph carry something from one request to the next."""
    assert sum(relation(seeded_case(2, index), GRAPHS).total() for index in range(16)) > least


# ---- workers that remember


class CountsFailures(Odd):
    """Every failure shifts all later drafts."""

    failures = 0

    def number(self, batch: Batch, b: int) -> int:
        return self.failures

    def forward(self, batch: Batch) -> StepResult:
        try:
            return super().forward(batch)
        except BaseException:
            self.failures += batch.mode not in UNDONE
            raise


class CountsHangs(CountsFailures):
    """Only what is no `Exception` does."""

    def forward(self, batch: Batch) -> StepResult:
        before = self.failures
        try:
            return super().forward(batch)
        except Exception:
            self.failures = before
            raise


class CountsLeavers(Odd):
    """Every request that is gone shifts all later drafts."""

    known: frozenset[int] = frozenset()
    left = 0

    def number(self, batch: Batch, b: int) -> int:
        return self.left

    def prepare(self, batch: Batch) -> None:
        super().prepare(batch)
        here = frozenset(row.incarnation for row in batch.rows)
        self.left += len(self.known - here)
        self.known = here


class CountsWarmUps(Odd):
    """Every warm-up shifts all later drafts."""

    warmups = 0

    def number(self, batch: Batch, b: int) -> int:
        return self.warmups

    def forward(self, batch: Batch) -> StepResult:
        self.warmups += batch.mode in UNDONE
        return super().forward(batch)


class CountsFailedWarmUps(CountsWarmUps):
    """Only those that fail do."""

    def forward(self, batch: Batch) -> StepResult:
        result = super().forward(batch)
        self.warmups -= batch.mode in UNDONE
        return result


@pytest.mark.parametrize(
    ("relation", "make"),
    [
        (check_fresh, CountsFailures),
        (check_fresh, CountsHangs),
        (check_fresh, CountsWarmUps),
        (check_later, CountsLeavers),
        (check_undone, CountsWarmUps),
        (check_undone, CountsFailedWarmUps),
    ],
    ids=lambda it: it.__name__,
)
def test_a_worker_that_remembers_is_seen(relation: Relation, make: MakeWorker) -> None:
    """If this fails, a worker that no field of the state gives away passes."""
    for index in range(100):
        try:
            relation(seeded_case(3, index), make)
        except Divergence as divergence:
            assert divergence.field == "I19"  # noqa: PT017 - the first that is seen is enough
            return
    pytest.fail("nobody noticed")
