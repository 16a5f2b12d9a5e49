"""Drafts, none for several steps, drafts again: with everything that can happen in between."""

from __future__ import annotations

from typing import Any

import pytest
from batches import small

from draftproof.fuzz.ranks.cases import behind
from draftproof.properties.rank_check import check_ranks
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import Cancel, Step, Submit, Warmup
from draftproof.sim.faults import kinds_at
from draftproof.sim.loading import load
from draftproof.sim.rank_events import On, RankEvent, Together
from draftproof.sim.ranks import World, replay_ranks

GUIDED: dict[str, Any] = {"target_logits": True, "vocab_size": 8}
SAMPLED: dict[str, Any] = {"use_rejection_sampling": True, "vocab_size": 8}
ZERO = Step(draft_len=0)
LENGTHS = [3, 3, 3, 0, 0, 0, 0, 0, 3, 3, 3]


def submit(request: int, **more: Any) -> Submit:
    asked: dict[str, Any] = {"prompt": 3, "limit": 60, "grammar": 2, "penalties": 4}
    return Submit(request, **{**asked, "sampled": request % 2 == 1, **more})


def sequence(place: str, settings: dict[str, Any]) -> World:
    """Rank 0 fails in the second step without drafts; rank 1 does not, but for its peer."""
    full = Together((Step(accepts=(2, 0, 1)), Step(accepts=(1, 3))))
    zero = Together((ZERO, ZERO))
    wrong = Step(draft_len=0, fault=place, kind=kinds_at(place)[0])
    made_up = Warmup(rows=2, live=True, sampled=True)
    events: list[RankEvent] = [
        *[On(rank, submit(request)) for rank in (0, 1) for request in (0, 1)],
        *[full, full, full, zero],
        On(0, Cancel(0)),
        On(1, Cancel(0)),
        *[On(rank, submit(2, same_id=True)) for rank in (0, 1)],
        Together((wrong, ZERO)),
        *[On(0, submit(request)) for request in (3, 4)],
        *[zero, zero, zero],
        Together((made_up, made_up)),
        *[full, full, full],
    ]
    return replay_ranks(small(num_stages=2, **settings), 2, events)


@pytest.mark.parametrize("settings", [GUIDED, SAMPLED])
@pytest.mark.parametrize(
    "place",
    [
        *["start", "assign", "target", "hidden", "answer"],
        *["accept", "seed", "draft", "drafted", "publish", "cleanup"],
    ],
)
@pytest.mark.parametrize("graphs", ["off", "on"])
def test_nothing_of_a_failure_between_drafts_is_seen(
    graphs: str, place: str, settings: dict[str, Any]
) -> None:
    """If this fails, a failed step without drafts shows in the drafts that follow."""
    make = load("draftproof.gpu.worker:make", options={"graphs": graphs})
    made = sequence(place, settings)
    failed, peer = made.ranks
    for run in made.ranks:
        assert run.breakdown is None
        served = [step for step in run.steps if step.batch.mode != "warmup"]
        assert [step.batch.draft_len for step in served] == LENGTHS
        owners = [{r.incarnation for r in step.batch.generations} - {0} for step in served]
        assert [1 in own for own in owners[:6]] == [False, *[True] * 3, False, False]  # cancelled
    assert failed.steps[4].result is None
    assert all(step.result is not None for step in peer.steps)
    check_ranks(made, make)
    found = behind(made, make)
    assert found.later.total() > 4
    assert found.undone.total() > 0
    assert found.peers.total() == 1
    later = [row for step in failed.steps[5:] for row in step.batch.generations]
    assert any(row.grammar for row in later) == (settings is GUIDED)
    assert {row.greedy for row in later if row.incarnation} == {False, True}


@pytest.mark.parametrize(
    ("defect", "settings"),
    [
        ("guided:ZeroStepUnmasked", GUIDED),
        ("guided:GuidanceOffAfterFailure", GUIDED),
        ("disturbed:GreedyWithoutDrafts", SAMPLED),
        ("disturbed:FailedWindowInherited", SAMPLED),
        ("steps:ZeroStepDoesNotAdvance", GUIDED),
    ],
)
def test_the_sequence_shows_a_worker_that_is_wrong_in_it(
    defect: str, settings: dict[str, Any]
) -> None:
    """If this fails, the sequence passes whatever a worker does in it."""
    with pytest.raises(Divergence):
        check_ranks(sequence("publish", settings), load(f"draftproof.gpu.defects.{defect}"))
