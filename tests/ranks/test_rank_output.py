"""Whether the output of ranks alone shows a fault: they wait for ever, or send what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from batches import small

from draftproof.fuzz.ranks.cases import RankSubject, seeded_world
from draftproof.fuzz.ranks.defects import RANK_CATALOGUE
from draftproof.fuzz.ranks.output import rank_output, waiting
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Batch, StepResult
from draftproof.sim.events import Step, Submit
from draftproof.sim.journal import Delivered
from draftproof.sim.loading import load
from draftproof.sim.rank_events import On, Together
from draftproof.sim.ranks import World, replay_ranks
from draftproof.sim.run import Crossed
from draftproof.sim.traces import load as read

TRACES = Path(__file__).parents[2] / "docs" / "traces"
SILENT = {"crosses-for-nobody", "global-batch-size", "bucket-of-own-budget"} | {
    "idle-rank-without-layout",
    "kinds-not-compared",
}
"""What every rank does alike at the barrier, or what only the target's collectives would feel."""
BUSY = tuple(On(rank, Submit(n, limit=9, imported=True)) for rank, n in ((0, 0), (1, 0), (1, 1)))
WIDE = small(graph_batch_sizes=(1, 2))
TOO_SMALL = {
    "failed-rank-leaves": Together((Step(fault="draft"),)),
    "pads-alone": Together((Step(graph=True), Step(graph=True))),
}
"""Their minimal traces have one rank, or one row each: then nobody waits."""


@pytest.mark.parametrize("make", [Model, load("draftproof.gpu.worker:make")])
def test_the_output_of_sound_ranks_is_right(make: Any) -> None:
    """If this fails, a fault is said to show in the output that does not."""
    worlds = [seeded_world(3, i, disturb=6) for i in range(12)]
    assert [rank_output(RankSubject(make), world) for world in worlds] == ["right"] * 12


@pytest.mark.parametrize("name", RANK_CATALOGUE)
def test_each_defect_of_ranks_shows_as_it_should(name: str) -> None:
    """If this fails, an engine team is told that a deadlock does not show, or the other way."""
    trace, subject = read(TRACES / f"{name}.jsonl"), RANK_CATALOGUE[name].subject()
    config, ranks, events = trace.config, trace.ranks, trace.together
    if name in TOO_SMALL:
        config, ranks, events = WIDE, 2, (*BUSY, TOO_SMALL[name])
    world = replay_ranks(config, ranks, events, subject.make_engine, subject.agree)
    assert rank_output(subject, world) == ("right" if name in SILENT else "stuck")


class SendsAnother(Model):
    """A worker that sends a request another token."""

    def forward(self, batch: Batch) -> StepResult:
        result = super().forward(batch)
        result.new_tokens[0][0] ^= 1
        return result


def served() -> World:
    events = (On(0, Submit(0, limit=9, imported=True)), Together(), Together((Step(),)))
    return replay_ranks(small(), 2, events)


def test_a_wrong_token_of_any_rank_shows() -> None:
    """If this fails, nobody looks at what requests are sent."""
    assert rank_output(RankSubject(SendsAnother), served()) == "wrong"
    world = served()
    entries = world.ranks[0].journal.entries
    index = next(i for i, entry in enumerate(entries) if isinstance(entry, Delivered))
    entry = entries[index]
    assert isinstance(entry, Delivered)
    entries[index] = replace(entry, tokens=(entry.tokens[0] ^ 1, *entry.tokens[1:]))
    assert rank_output(RankSubject(None), world) == "wrong"


@pytest.mark.parametrize(
    ("logs", "waits"),
    [
        (([(0, 3, (3, 1))], [(0, 1, (3, 1))]), False),
        (([(0, 1, (3, 1))], [(0, 1, (3, 1))]), False),  # the first one failed
        (([(0, 3, (3, 1))], []), True),
        (([(0, 3, (3, 1))], [(1, 1, (3, 1))]), True),
        (([(0, 3, (3, 1))], [(0, 1, (3, 3))]), True),
        (([(0, 4, (3, 1))], [(0, 1, (3, 1))]), True),
        (([(0, 3, (3, 0))], [(0, 1, (3, 0))]), True),
    ],
)
def test_who_waits(logs: Sequence[Sequence[Crossed]], waits: bool) -> None:
    """If this fails, a deadlock is not one, or the other way."""
    assert waiting(logs) == waits
