"""What must not matter to a worker, and that each relation sees a worker to which it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from batches import lent
from examples import share
from hypothesis import given
from hypothesis import strategies as st
from planted import workers
from planted.workers import Odd, served

from draftproof.fuzz.cases import seeded_case
from draftproof.properties.relations import Choose, check_rows, eager, only, reversed_rows, spoiled
from draftproof.properties.strategies import runs
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import UNDONE
from draftproof.sim.divergence import Divergence
from draftproof.sim.loading import load
from draftproof.sim.lockstep import MakeWorker, check
from draftproof.sim.run import Run

TORCH = load("draftproof.gpu.worker:make")

pytestmark = pytest.mark.timeout(900)  # the profile `nightly` draws twenty times as many


def incarnations(run: Run) -> list[int]:
    return sorted({row.incarnation for step in run.steps for row in step.batch.rows} - {0})


def i6_rejected(run: Run, make: MakeWorker) -> None:
    check(spoiled(run), make)


def i10_order(run: Run, make: MakeWorker) -> None:
    check_rows(run, make(run.config, lent(run.config)), reversed_rows)


def i10_alone(run: Run, make: MakeWorker) -> None:
    for incarnation in incarnations(run):
        check_rows(run, make(run.config, lent(run.config)), only(incarnation), seq_slot=0)


def i11_eager(run: Run, make: MakeWorker) -> None:
    check(eager(run), make)


# On the model and on the worker


@share(2)
@given(run=runs())
@pytest.mark.parametrize("relation", [i6_rejected, i10_order, i10_alone, i11_eager])
def test_the_model_keeps(relation: Callable[[Run, MakeWorker], None], run: Run) -> None:
    """If this fails, the specification as code lets neighbours or rejected rows through."""
    relation(run, Model)


@share(1.5)
@given(run=runs())
@pytest.mark.parametrize("relation", [i6_rejected, i10_order, i11_eager])
def test_the_worker_keeps(relation: Callable[[Run, MakeWorker], None], run: Run) -> None:
    """If this fails, neighbours, graphs or rejected rows change what a request is given."""
    relation(run, TORCH)


@share(1.5)
@given(run=runs(), which=st.integers(0, 9))
def test_a_request_alone_gets_the_same(run: Run, which: int) -> None:
    """If this fails, who else is served changes what a request is given."""
    for incarnation in incarnations(run)[which : which + 1]:
        worker = TORCH(run.config, lent(run.config))
        check_rows(run, worker, only(incarnation), seq_slot=0)


# The relations themselves


def seen(relation: Callable[[Run, MakeWorker], None], kind: type[Odd]) -> Iterator[Divergence]:
    """Where the relation turns red, over runs that the odd worker itself has served."""
    for case in range(60):
        run = served(seeded_case(7, case), kind)
        check(run, kind)
        try:
            relation(run, kind)
        except Divergence as divergence:
            yield divergence


@pytest.mark.parametrize(
    ("relation", "kind"),
    [
        (i6_rejected, workers.HearsRejectedRows),
        (i6_rejected, workers.ReadsBehindTheMismatch),
        (i6_rejected, workers.ReadsRejectedDrafts),
        (i6_rejected, workers.ReadsMassBehindTheMismatch),
        (i6_rejected, workers.ReadsNumbersBehindTheMismatch),
        (i10_order, workers.CountsPadding),
        (i10_order, workers.KnowsItsPlace),
        (i10_order, workers.KnowsItsSlot),
        (i10_alone, workers.CountsNeighbours),
        (i10_alone, workers.CountsPadding),
        (i10_alone, workers.KnowsItsSlot),
        (i10_alone, workers.KnowsItsSequenceSlot),
        (i11_eager, workers.KnowsTheMode),
    ],
    ids=lambda it: it.__name__,
)
def test_a_relation_sees_a_worker_that_agrees_with_itself(
    relation: Callable[[Run, MakeWorker], None], kind: type[Odd]
) -> None:
    """If this fails, the relation passes a worker that depends on what must not matter."""
    divergence = next(seen(relation, kind))
    fields = {"I10"} if relation in (i10_order, i10_alone) else {"next_draft_tokens"}
    assert divergence.field in fields


@pytest.mark.parametrize("case", range(10))
def test_a_run_alone_is_a_run(case: int) -> None:
    """If this fails, most of a run is left out, and the relations compare next to nothing."""
    run = seeded_case(7, case)
    rows = [
        row.incarnation
        for step in run.steps
        if step.result is not None and step.batch.mode not in UNDONE
        for row in step.batch.rows
        if row.incarnation
    ]

    def compared(choose: Choose, seq_slot: int | None = None) -> int:
        return check_rows(run, Model(run.config, lent(run.config)), choose, seq_slot)

    assert compared(reversed_rows) == len(rows)
    assert [compared(only(i), 0) for i in incarnations(run)] == [
        rows.count(i) for i in incarnations(run)
    ]
