"""Planned steps: who is told what, and when; what is checked, and what is said to be unchecked."""

from __future__ import annotations

from typing import Any

import pytest
from planned.by_hand import START, scheduled
from schedules import play

from draftproof.fuzz.summary import Summary
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import (
    Batch,
    Collaborators,
    Config,
    StepResult,
    Worker,
    WorkerState,
)
from draftproof.sim.divergence import Divergence
from draftproof.sim.drafting import ATTENTION
from draftproof.sim.events import AnyEvent, Step, Submit
from draftproof.sim.loading import load
from draftproof.sim.lockstep import check

JAGGED = ((4, 90.0), (9, 80.0), (11, 79.0), (24, 10.0))
COSTS = tuple((tokens, 1 / rate) for tokens, rate in JAGGED)

PAYS_ONCE = ((6, 100.0), (7, 99.0), (24, 1.0))
"""For three requests: one draft above the fewest pays, no more."""

PLANNED = (*START, Step(age=1, budget=4, accepts=(4,)))


class Door(Model):
    """The model, writing down what it is given."""

    def __init__(self, config: Config, collaborators: Collaborators) -> None:
        super().__init__(config, collaborators)
        self.given: list[tuple[str, Batch]] = []

    def prepare(self, batch: Batch) -> None:
        self.given.append(("prepare", batch))
        super().prepare(batch)

    def plan(self, batch: Batch) -> Any:
        self.given.append(("plan", batch))
        return super().plan(batch)

    def forward(self, batch: Batch) -> StepResult:
        self.given.append(("forward", batch))
        return super().forward(batch)


class Told:
    """A door without a plan."""

    def __init__(self, config: Config, collaborators: Collaborators) -> None:
        self.model = Model(config, collaborators)

    def prepare(self, batch: Batch) -> None:
        self.model.prepare(batch)

    def forward(self, batch: Batch) -> StepResult:
        return self.model.forward(batch)

    def state(self) -> WorkerState:
        return self.model.state()


class OneMore(Door):
    """Plans one draft too many, for the second request."""

    def plan(self, batch: Batch) -> Any:
        first, second, *rest = super().plan(batch)
        return [first, second + 1, *rest]


class NoNumbers(Door):
    """Plans nothing that could be compared."""

    def plan(self, batch: Batch) -> Any:
        super().plan(batch)


def lengths(run: Any) -> tuple[int, ...] | None:
    windows: tuple[int, ...] | None = run.steps[-1].batch.verify_lens
    return windows


def test_a_planned_step_is_prepared_planned_packed_and_run() -> None:
    """If this fails, a worker sees windows before it plans them, or packs rows by others."""
    doors: list[Door] = []

    def make(config: Config, collaborators: Collaborators) -> Worker:
        doors.append(Door(config, collaborators))
        return doors[0]

    run = play(scheduled(), *PLANNED)
    checked = check(run, make)
    calls = [call for call, _ in doors[0].given]
    last = max(i for i, call in enumerate(calls) if call == "plan")
    assert calls[last - 1 : last + 2] == ["prepare", "plan", "forward"]
    (_, first), (_, second), (_, third) = doors[0].given[last - 1 : last + 2]
    assert (first.verify_lens, first.confidences, first.verify_budget) == (None, None, 4)
    assert (second.verify_lens, second.hidden, second.verify_budget) == (None, None, 4)
    assert third.verify_lens == lengths(run)
    assert sum(third.verify_lens or ()) == 3 * (1 + 1) + 4
    assert len(third.target_tokens) == sum(third.verify_lens or ())
    assert checked.not_checked == set()


@pytest.mark.parametrize("graphs", ["off", "on"])
def test_the_worker_plans_as_the_model_does(graphs: str) -> None:
    """If this fails, the device gives its budget to other drafts than the specification."""
    events: list[AnyEvent] = [*START]
    for budget in (0, 1, 3, 7, 40):
        events += [
            Step(age=1, budget=budget, accepts=(5, 1, 0), graph=budget > 1),
            Step(age=2, budget=budget, accepts=(0, 3), graph=budget < 3, broken=True),
        ]
    for changes in (
        {},
        {"min_verify_len": 2, "max_verify_len": 3, "sts_temperatures": (0.5, 2.0, 1.0, 4.0, 1.0)},
        {"graph_batch_sizes": (3, 4), "verify_buckets": (4, 6, 8, 12, 20, 24)},
        {"verify_budget": 5, "poison": True},
        {"sps_table": JAGGED},
        {"sps_table": JAGGED, "early_stopping": True},
        {"step_costs": COSTS, "min_verify_len": 2},
        {"step_costs": COSTS, "early_stopping": True, "poison": True},
    ):
        run = play(scheduled(**changes), *events)
        planned = [step.batch for step in run.steps if step.batch.verify_budget is not None]
        assert len(planned) == 10
        check(run, load("draftproof.gpu.worker:make", options={"graphs": graphs}))


def test_a_door_without_a_plan_is_told_and_the_report_says_so() -> None:
    """If this fails, a worker that cannot plan is refused, or taken for one that was checked."""
    run = play(scheduled(), *PLANNED)
    checked = check(run, lambda config, lent: Told(config, lent))
    assert checked.not_checked == {"verify windows", ATTENTION}
    assert check(play(scheduled(), *START), Told).not_checked == {ATTENTION}


def test_other_windows_are_a_difference_of_their_request() -> None:
    """If this fails, nobody compares what a worker plans."""
    run = play(scheduled(), *PLANNED)
    with pytest.raises(Divergence) as found:
        check(run, OneMore)
    windows = lengths(run)
    assert windows is not None
    assert found.value.signature == ("comparison", "verify_lens")
    assert (found.value.expected, found.value.found) == (windows[1], windows[1] + 1)
    assert (found.value.row, found.value.step) == (1, 3)


def test_a_plan_that_is_no_list_is_the_workers_fault() -> None:
    """If this fails, a broken door ends the campaign instead of being reported."""
    with pytest.raises(Divergence) as found:
        check(play(scheduled(), *PLANNED), NoNumbers)
    assert found.value.field == "verify_lens"
    assert found.value.expected == "verify windows [G]"


@pytest.mark.parametrize(
    ("event", "source"),
    [
        (Step(), "uniform"),
        (Step(age=0, budget=3), "uniform"),
        (Step(age=3, budget=3), "uniform"),
        (Step(age=1, budget=3), "windows"),
        (Step(age=2, budget=3), "windows"),
        (Step(age=1, budget=3, windows=(2,)), "windows"),
        (Step(age=1, budget=3, draft_len=2), "uniform"),
    ],
)
def test_the_source_of_the_windows(event: Step, source: str) -> None:
    """If this fails, a snapshot that is not ready is used, or r < K is ragged."""
    result = play(scheduled(), *START, event).steps[-1].result
    assert result is not None
    assert result.window_source == source


def test_beside_contexts_the_host_says_who_verifies_how_much() -> None:
    """If this fails, a mixed batch waits for the worker, or is uniform although it need not be."""
    run = play(scheduled(), *START, Submit(3, prompt=4, limit=9), Step(age=1, budget=4))
    batch, result = run.steps[-1].batch, run.steps[-1].result
    assert result is not None
    assert result.window_source == "snapshot"
    assert batch.verify_budget is None
    assert batch.confidences is None
    assert len(batch.contexts) == 1
    assert sum(batch.verify_lens or ()) == 3 * 2 + 4


def test_a_bucket_is_hit_exactly() -> None:
    """If this fails, a graph is replayed with another number of token rows than it was made for."""
    config = scheduled(graph_batch_sizes=(4,), verify_buckets=(4, 12, 24))
    for budget, bucket in ((0, 12), (5, 12), (6, 24)):
        batch = play(config, *START, Step(age=1, budget=budget, graph=True)).steps[-1].batch
        assert (batch.mode, batch.verify_bucket) == ("replay", bucket)
        assert sum(batch.verify_lens or ()) == bucket
        assert len(batch.generations) == 4


def test_the_budget_is_the_deployments_before_it_is_the_schedules() -> None:
    """If this fails, a fixed budget or a measured table is ignored."""
    for changes, budget in (
        ({}, 9),
        ({"verify_budget": 2}, 2),
        ({"sps_table": PAYS_ONCE}, 1),
        ({"step_costs": ((6, 0.01), (7, 1 / 99), (24, 1.0))}, 1),
        ({"sps_table": PAYS_ONCE, "early_stopping": True}, 9),
    ):
        run = play(scheduled(**changes), *START, Step(age=1, budget=9))
        assert run.steps[-1].batch.verify_budget == budget


def test_a_worker_with_a_table_stops_where_a_draft_does_not_pay() -> None:
    """If this fails, Algorithm 1 is written down, and no step is ever planned by it."""
    config = scheduled(sps_table=PAYS_ONCE, early_stopping=True)
    for budget, spent in ((0, 0), (1, 1), (9, 1)):
        run = play(config, *START, Step(age=1, budget=budget))
        assert sum(lengths(run) or ()) == 3 * 2 + spent
        check(run, load("draftproof.gpu.worker:make"))
    beside_a_prompt = play(config, *START, Submit(3, prompt=4, limit=9), Step(age=1, budget=9))
    assert sum(lengths(beside_a_prompt) or ()) == 3 * 2 + 1


def test_an_idle_step_can_be_planned() -> None:
    """If this fails, a rank without requests needs a schedule of its own."""
    config = scheduled(graph_batch_sizes=(1,), verify_buckets=(2,))
    run = play(config, Step(), Step(), Step(age=1, budget=3, graph=True))
    batch = run.steps[-1].batch
    assert (batch.mode, batch.verify_lens) == ("replay", (2,))
    check(run, load("draftproof.gpu.worker:make"))


def test_what_was_scheduled_by_confidence_is_counted() -> None:
    """If this fails, a campaign without planned steps, or always with one age, looks complete."""
    events = (
        *START,
        Step(age=0, budget=1),
        Step(age=1, budget=0),
        Step(age=1, budget=2),
        Step(age=2, budget=3),
        Submit(3, prompt=4, limit=9),
        Step(age=2, budget=0),
    )
    run, total = play(scheduled(), *events), Summary()
    total.add(run, check(run, Door))
    assert (total.planned, total.no_budget) == (3, 2)
    assert total.snapshots == {"not ready": 1, "1 old": 2, "2 old": 2}
    line = next(line for line in total.lines() if line.startswith("by confidence"))
    assert line.endswith(
        "3 steps planned by the worker, 2 budgets of 0; snapshots: 2 1 old, 2 2 old, 1 not ready"
    )
