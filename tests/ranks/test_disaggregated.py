"""A context server and a generation server, and transfers that go wrong."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from batches import small

from draftproof.properties.asked import Schedule
from draftproof.properties.disaggregated import check_servers
from draftproof.properties.invariants import Invariants
from draftproof.reference.model import Model
from draftproof.sim.choices import Seeded
from draftproof.sim.configs import choose_config
from draftproof.sim.disaggregated import (
    HOW,
    Arrival,
    Disaggregated,
    How,
    OnServer,
    ServerEvent,
    Servers,
    Transfer,
    simulate_servers,
)
from draftproof.sim.divergence import Divergence
from draftproof.sim.engine import Engine
from draftproof.sim.events import Cancel, Step, Submit
from draftproof.sim.loading import load
from draftproof.sim.lockstep import MakeWorker, check

TORCH = load("draftproof.gpu.worker:make")
CONTEXT, GENERATION = OnServer("context", Step()), OnServer("generation", Step())


def judged(both: Disaggregated, make: MakeWorker | None = None) -> Servers:
    """Everything that must hold, on both servers."""
    both.drain()
    servers = both.finish()
    for run in (servers.context, servers.generation):
        check(run, make, [Invariants(run.config), Schedule(run.config)])
    check_servers(servers)
    return servers


def served(*events: ServerEvent, kind: type[Disaggregated] = Disaggregated) -> Disaggregated:
    both = kind(small(target="autonomous", vocab_size=3))
    for event in events:
        both.apply(event)
    return both


def transferred(how: How, *events: ServerEvent, **plan: Any) -> Disaggregated:
    asked = Submit(0, prompt=6, limit=9)
    return served(asked, Transfer(0, how, **plan), CONTEXT, *events, GENERATION)


def first_fed(both: Disaggregated) -> list[tuple[int, int]]:
    """(incarnation, position) of every row of the generation server's first step with anybody."""
    for step in both.generation.run.steps:
        batch = step.batch
        rows = [(row.incarnation, row.first_position) for row in batch.contexts]
        rows += [(row.incarnation, row.position) for row in batch.generations if row.incarnation]
        if rows:
            return rows
    return []


@pytest.mark.parametrize(
    ("how", "plan", "first"),
    [
        ("whole", {}, 5),
        ("late", {"steps": 3}, 5),
        ("repeated", {"steps": 2}, 5),
        ("partial", {"tokens": 2}, 2),
        ("lost", {"steps": 2}, 0),
    ],
)
def test_what_did_not_arrive_is_computed_again(how: How, plan: Any, first: int) -> None:
    """If this fails, a request generates on a prompt that is not there, or twice, or never."""
    both = transferred(how, *[GENERATION] * 4, **plan)
    servers = judged(both, Model)
    assert first_fed(both) == [(1, first)]
    waited = plan.get("steps", 0) if how in ("late", "lost") else 0
    assert [step.batch.rows[0].incarnation for step in both.generation.run.steps][: waited + 1] == [
        *[0] * waited,
        1,
    ]
    assert len(servers.arrived) == (2 if how == "repeated" else 1)


def test_a_request_cancelled_in_flight_never_arrives() -> None:
    """If this fails, pages that were freed are written by a transfer that is still under way."""
    both = transferred("late", Cancel(0), *[GENERATION] * 6, steps=4)
    assert judged(both).arrived == []
    assert first_fed(both) == []


@pytest.mark.parametrize("make", [Model, TORCH])
def test_any_schedule_of_both_servers_is_served(make: MakeWorker) -> None:
    """If this fails, transfers that go wrong change what a request is given, or lose it."""
    seen: Counter[str] = Counter()
    for index in range(25 if make is Model else 6):
        choices = Seeded(index)
        both, events = simulate_servers(choose_config(choices), choices, 40)
        seen.update(event.how for event in events if isinstance(event, Transfer))
        seen["arrived"] += len(judged(both, make).arrived)
    assert set(seen) == {*HOW, "arrived"}
    assert seen["arrived"] > (200 if make is Model else 30)


# ---- planted


class ServesTwice(Engine):
    """A transfer that comes again is a new request."""

    def _submit(self, event: Submit) -> None:
        self.submitted.discard(event.request)
        super()._submit(event)


class PartialForWhole(Engine):
    """What has arrived of a prompt is taken for all of it."""

    def _submit(self, event: Submit) -> None:
        whole = bool(event.reused) or event.imported
        super()._submit(msgspec.structs.replace(event, imported=whole, reused=0))


class ForgetsTheLost(Disaggregated):
    """A transfer that is lost is waited for by nobody."""

    def _transfer(self, asked: Submit, plan: Transfer) -> None:
        super()._transfer(asked, plan)
        if plan.how == "lost":
            self.in_flight.pop()


class ArrivesTwice(Disaggregated):
    """A request cancelled in flight arrives all the same."""

    def apply(self, event: ServerEvent) -> None:
        kept: list[Arrival] = list(self.in_flight)
        super().apply(event)
        if isinstance(event, Cancel):
            self.in_flight = kept


def caught(both: Disaggregated) -> Divergence:
    with pytest.raises(Divergence) as info:
        judged(both)
    return info.value


def test_a_transfer_served_twice_is_found() -> None:
    """If this fails, a repeated message doubles a request."""
    both = Disaggregated(small(), ServesTwice)
    for event in (Submit(0, prompt=3, limit=9), Transfer(0, "repeated", steps=1), CONTEXT):
        both.apply(event)
    for _ in range(3):
        both.apply(GENERATION)
    assert caught(both).field == "I13"


def test_a_part_taken_for_the_whole_is_found() -> None:
    """If this fails, a request reads target memory that was never filled."""
    both = Disaggregated(small(), PartialForWhole)
    for event in (Submit(0, prompt=6, limit=9), Transfer(0, "partial", tokens=2), CONTEXT):
        both.apply(event)
    told = caught(both)
    assert (told.field, told.found) == ("I21", "from position 5")


def test_a_lost_transfer_that_nobody_waits_for_is_found() -> None:
    """If this fails, a client waits for ever for a request that no server has."""
    events = (Submit(0, prompt=3, limit=9), Transfer(0, "lost", steps=2), CONTEXT, GENERATION)
    told = caught(served(*events, kind=ForgetsTheLost))
    assert (told.oracle, told.exit_code) == ("liveness", 7)
    assert told.found == "request 0 (by ordinal) was sent, and never heard of again"


def test_one_that_arrives_though_cancelled_is_found() -> None:
    """If this fails, a cancelled request is served to nobody."""
    both = ArrivesTwice(small())
    for event in (Submit(0, prompt=3, limit=9), Transfer(0, "late", steps=2), CONTEXT, Cancel(0)):
        both.apply(event)
    told = caught(both)
    assert (told.field, told.found) == ("I13", "request 0 arrived")
