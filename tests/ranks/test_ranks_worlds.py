"""Several ranks in one process: what they agree on, and how a disagreement is told."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from batches import small

from draftproof.fuzz.ranks.cases import Behind, RankSubject, behind, find_seeded_world, seeded_world
from draftproof.fuzz.ranks.defects import RANK_CATALOGUE
from draftproof.properties.rank_check import check_ranks, check_survivors
from draftproof.properties.ranks import check_crossings
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Batch, StepResult
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import Cancel, Step, Submit, Warmup
from draftproof.sim.faults import kinds_at
from draftproof.sim.loading import load
from draftproof.sim.rank_engine import Wish, agree
from draftproof.sim.rank_events import On, RankEvent, Together
from draftproof.sim.ranks import World, replay_ranks
from draftproof.sim.run import Crossed

TORCH = load("draftproof.gpu.worker:make")
GRAPHS = load("draftproof.gpu.worker:make", options={"graphs": "on"})
SCHEDULE = ((1, 3), (2, 0))


def submit(rank: int, request: int, **more: Any) -> On:
    return On(rank, Submit(request, **{"prompt": 2, "limit": 20, **more}))


def world(ranks: int, *events: RankEvent, **config: Any) -> World:
    made = replay_ranks(small(num_stages=2, **config), ranks, events)
    assert made.breakdown is None
    return made


def crossings(made: World) -> list[list[tuple[Crossed, ...]]]:
    """Per forward, per rank."""
    return [[step.crossed for step in steps] for _, steps in made.rounds]


# ---- who crosses, with what


def test_idle_ranks_and_ranks_at_r_0_cross_beside_drafting_peers() -> None:
    """If this fails, peers wait for a rank that has nothing to draft."""
    made = world(
        3,
        submit(0, 0),
        *[submit(1, i) for i in range(2)],  # two requests: r = 0
        Together(),
        Together(),
        draft_len_schedule=SCHEDULE,
    )
    prompts, drafts = crossings(made)
    # At first ranks 0 and 1 have prompts alone; the idle rank drafts like any other.
    assert [[call[1:] for call in rank] for rank in prompts] == [
        [(1, (1, 1, 3))] * 2,
        [(1, (1, 1, 3))] * 2,
        [(3, (1, 1, 3))] * 2,
    ]
    assert [[call[:2] for call in rank] for rank in drafts] == [
        [(0, 3), (1, 3)],
        [(0, 1), (1, 1)],
        [(0, 3), (1, 3)],
    ]


def test_nobody_crosses_if_nobody_drafts() -> None:
    """If this fails, ranks meet for nothing in every step without drafts."""
    made = world(2, Together((Step(draft_len=0), Step(draft_len=0))))
    assert crossings(made) == [[(), ()]]


@pytest.mark.parametrize(
    ("place", "own"),
    [
        *[(place, [1, 1]) for place in ("start", "target", "hidden", "answer", "assign")],
        *[(place, [1, 1]) for place in ("accept", "seed", "draft")],
        ("stage", [3, 1]),
        *[(place, [3, 3]) for place in ("sample", "drafted", "publish", "cleanup")],
    ],
)
@pytest.mark.parametrize("make", [Model, TORCH])
def test_a_failed_rank_crosses_what_is_left_with_the_dummy_row(
    make: Any, place: str, own: list[int]
) -> None:
    """If this fails, a rank that fails leaves its peers waiting, or brings rows of a dead step."""
    kind = kinds_at(place)[0]
    made = world(
        2,
        *[submit(rank, 0) for rank in (0, 1)],
        Together(),
        Together((Step(fault=place, kind=kind),)),
        Together(),
        Together(),
    )
    wrong, peer = list(made.rounds)[1][1]
    assert (wrong.fault, wrong.result, peer.fault) == (place, None, None)
    if place == "stage":  # the second step has the number 1, so the first stage is let through
        assert wrong.batch.step == 1
    assert [rows for _, rows, _ in wrong.crossed] == own
    assert [rows for _, rows, _ in peer.crossed] == [3, 3]
    assert check_ranks(made, make).steps == 8
    assert check_survivors(made, make).total() == 1


# ---- padding


def test_everybody_pads_for_the_rank_with_most_rows() -> None:
    """If this fails, ranks replay graphs that do not meet."""
    step = Together((Step(graph=True), Step(graph=True)))
    events: list[RankEvent] = [submit(0, 0), *[submit(1, i) for i in range(3)], Together(), step]
    made = world(2, *events, max_num_requests=4, graph_batch_sizes=(1, 2, 4))
    assert [len(step.batch.rows) for step in list(made.rounds)[1][1]] == [4, 4]
    assert [step.batch.rank_rows for step in list(made.rounds)[1][1]] == [(12, 12)] * 2


def test_nobody_pads_if_anybody_cannot_replay() -> None:
    """If this fails, one rank replays while another one runs eagerly."""
    step = Together((Step(graph=True), Step(graph=True)))
    events: list[RankEvent] = [submit(0, 0), submit(1, 0), Together()]
    events += [submit(1, 1), step]  # rank 1 has a prompt
    made = world(2, *events, max_num_requests=4, graph_batch_sizes=(1, 2, 4))
    assert [step.batch.mode for step in list(made.rounds)[1][1]] == ["eager", "eager"]
    config = small(draft_len_schedule=((1, 3), (2, 0), (3, 3)), graph_batch_sizes=(1, 2, 3))
    # Rank 1 has three rows at r = 3; for rank 0, at r = 0, nothing is captured for so many.
    wishes = [Wish(2, 2, 0, graph=True), Wish(3, 3, 3, graph=True)]
    assert agree(config, wishes).wanted is None
    assert agree(config, wishes).rank_rows == (0, 9)


# ---- campaigns


@pytest.mark.parametrize("make", [Model, TORCH, GRAPHS])
def test_a_correct_worker_passes_on_any_number_of_ranks(make: Any) -> None:
    """If this fails, a correct implementation is called wrong on some schedule of ranks."""
    cases, total = (8 if make is Model else 3), Behind()
    for index in range(4 * cases):
        made = seeded_world(5, index, 1 + index % 4, disturb=4)
        check_ranks(made, make)
        if index % 4 == 3:
            found = behind(made, make)
            total.later += found.later
            total.peers += found.peers
    assert total.later.total() > 10
    assert total.peers.total() > 10


def test_worlds_meet_what_they_are_made_for() -> None:
    """If this fails, a campaign says little about ranks."""
    seen: Counter[str] = Counter()
    for index in range(60):
        for _, steps in seeded_world(6, index).rounds:
            rows = [0 if step.batch.rank_rows is None else step.batch.rank_rows for step in steps]
            own = steps[0].batch.rank_rows or ()
            assert all(row == own for row in rows)
            seen["r = 0 beside drafting peers"] += 0 < sum(map(bool, own)) < len(own)
            seen["nobody drafts"] += not any(own)
            seen["a failure beside a peer"] += len(own) > 1 and any(s.result is None for s in steps)
            seen["replays"] += steps[0].batch.mode == "replay"
            seen["idle"] += any(row.request_id == 0 for s in steps for row in s.batch.rows)
            seen["prompts alone"] += any(not step.batch.generations for step in steps)
            seen["warm-ups"] += steps[0].batch.mode in ("warmup", "capture")
    assert min(seen.values()) > 5, seen


def test_the_same_seed_makes_the_same_world() -> None:
    """If this fails, a failure on ranks cannot be reproduced."""
    assert repr(seeded_world(7, 3).events) == repr(seeded_world(7, 3).events)


def test_events_for_ranks_that_are_not_there_are_skipped() -> None:
    """If this fails, a schedule cannot be shrunk to fewer ranks."""
    made = world(1, On(3, Cancel(0)), On(0, Step()), Together((Step(), Step(), Warmup())))
    assert len(list(made.rounds)) == 1
    assert made.ranks[0].steps[0].batch.rank_rows == (3,)


# ---- deadlocks


def calls(*rows: tuple[int, int, tuple[int, ...]]) -> list[Crossed]:
    return list(rows)


def deadlock(*logs: list[Crossed], rank_rows: tuple[int, ...] = (3, 0)) -> Divergence:
    batch = replace(world(2, Together()).ranks[0].steps[0].batch, rank_rows=rank_rows)
    with pytest.raises(Divergence) as info:
        check_crossings([batch, batch], logs, 2)
    return info.value


GOOD = calls((0, 3, (3, 1)), (1, 3, (3, 1)))
DUMMY = calls((0, 1, (3, 1)), (1, 1, (3, 1)))


def test_a_rank_that_never_arrives_is_told_with_those_that_wait() -> None:
    """If this fails, a hang of the ranks hangs the check, or is told as something else."""
    told = deadlock(GOOD, DUMMY[:1])
    assert (told.oracle, told.field) == ("deadlock", "I12")
    assert told.found == (
        "rank 0 waits at stage 1 of the draft MoE, rows (3, 1); rank 1 never arrives"
    )
    assert told.expected == "all ranks at the same call, number 1 of the step"


def test_ranks_that_wait_at_different_calls_are_told() -> None:
    """If this fails, ranks that never meet pass for agreeing."""
    told = deadlock(GOOD, DUMMY[::-1])
    assert told.found == (
        "rank 0 waits at stage 0 of the draft MoE, rows (3, 1); "
        "rank 1 waits at stage 1 of the draft MoE, rows (3, 1)"
    )
    told = deadlock(GOOD, calls((0, 1, (3, 3)), (1, 1, (3, 3))))
    assert "rank 1 waits at stage 0 of the draft MoE, rows (3, 3)" in str(told.found)


def test_rows_that_nobody_was_told_of_are_found() -> None:
    """If this fails, a rank brings more rows than its peers have room for."""
    told = deadlock(calls((0, 2, (3, 1)), (1, 2, (3, 1))), DUMMY)
    assert (told.expected, told.found) == (
        "rank 0 brings 3 rows to stage 0, or the dummy",
        "2 rows",
    )


def test_all_ranks_missing_a_stage_together_are_found() -> None:
    """If this fails, ranks that agree on the wrong thing pass."""
    assert deadlock(GOOD[:1], DUMMY[:1]).expected == "rank 0 crosses stages [0, 1]"
    assert deadlock(GOOD, DUMMY, rank_rows=(0, 0)).expected == "rank 0 crosses stages []"


# ---- planted


@pytest.mark.parametrize("name", RANK_CATALOGUE)
def test_each_planted_defect_of_ranks_is_found(name: str) -> None:
    """If this fails, ranks can lose step with each other, and the check passes."""
    defect = RANK_CATALOGUE[name]
    found = find_seeded_world(defect.subject(), 1, 4_000)
    assert found is not None
    assert found.divergence.oracle in ("deadlock", "invariant", "comparison")
    correct = RankSubject(TORCH if defect.side == "worker" else None)
    again = replay_ranks(found.world.config, len(found.world.ranks), found.world.events)
    assert correct.judge_world(again).steps > 0


class SharesWithPeers(Model):
    """A failure is noted where every worker of the process sees it, and shifts its drafts."""

    noted: ClassVar[list[int]] = [0]

    def forward(self, batch: Batch) -> StepResult:
        try:
            result = super().forward(batch)
        except BaseException:
            SharesWithPeers.noted[0] += 1
            raise
        shift = SharesWithPeers.noted[0] % self.config.vocab_size
        result.next_draft_tokens = [
            [(draft + shift) % self.config.vocab_size for draft in drafts]
            for drafts in result.next_draft_tokens
        ]
        return result


def test_a_failure_that_reaches_another_rank_is_seen() -> None:
    """If this fails, ranks of one process may share what one of them broke."""
    failing = Together((Step(fault="accept"),))
    events: list[RankEvent] = [
        submit(0, 0),
        submit(1, 0),
        Together(),
        Together(),
        failing,
        Together(),
        Together(),
    ]
    made = world(2, *events)
    with pytest.raises(Divergence) as info:
        check_survivors(made, SharesWithPeers)
    assert info.value.field == "I19"
