"""Ranks plan windows of their own, and replay one graph (semantics, sections 13 and 14)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from batches import small

from draftproof.fuzz.ranks.campaign import ragged_steps
from draftproof.fuzz.ranks.cases import behind, seeded_world
from draftproof.properties.rank_check import check_ranks
from draftproof.properties.ranks import check_round
from draftproof.reference.model import Model
from draftproof.reference.ragged import Load
from draftproof.reference.vocabulary import Batch, Config
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import Step, Submit
from draftproof.sim.loading import load
from draftproof.sim.rank_engine import Wish, agree
from draftproof.sim.rank_events import On, RankEvent, Together
from draftproof.sim.ranks import World, replay_ranks

TORCH = load("draftproof.gpu.worker:make")
GRAPHS = load("draftproof.gpu.worker:make", options={"graphs": "on"})
SIZES = {"max_num_requests": 4, "graph_batch_sizes": (1, 2, 4)}
CONFIG = small(confidence_scheduling=True, verify_buckets=(4, 8, 10, 16), **SIZES)
ANY_TOKENS = small(confidence_scheduling=True, **SIZES)


def plan(budget: int, **more: Any) -> Step:
    return Step(graph=True, **{"age": 1, "budget": budget, **more})


def last_round(config: Config, requests: tuple[int, ...], *steps: Step) -> list[Batch]:
    """What ranks with so many requests make of their steps, when there are snapshots; checked."""
    made = replay_ranks(config, len(requests), schedule(requests, *steps))
    return checked(made)[-1]


def schedule(requests: tuple[int, ...], *steps: Step) -> list[RankEvent]:
    admitted: list[RankEvent] = [
        On(rank, Submit(i, prompt=2 + rank, limit=30))
        for rank, count in enumerate(requests)
        for i in range(count)
    ]
    return [*admitted, Together(), Together(), Together(), Together(steps)]


def checked(made: World) -> list[list[Batch]]:
    """The batches of each round, when the worker and every oracle have passed it."""
    assert made.breakdown is None
    for make in (TORCH, GRAPHS):
        check_ranks(made, make)
    return [[step.batch for step in steps] for _, steps in made.rounds]


def graphs(batches: list[Batch]) -> list[tuple[str, int, int | None]]:
    return [(batch.mode, len(batch.rows), batch.verify_bucket) for batch in batches]


# ---- one graph for all


def test_ranks_with_budgets_of_their_own_replay_one_bucket() -> None:
    """If this fails, ranks replay different tiers, and wait for each other for ever (RANK-2)."""
    alone = last_round(CONFIG, (2,), plan(0)), last_round(CONFIG, (1,), plan(2))
    assert [graphs(batches) for batches in alone] == [[("replay", 2, 4)], [("replay", 1, 4)]]
    batches = last_round(CONFIG, (2, 1), plan(0), plan(2))
    assert graphs(batches) == [("replay", 2, 8)] * 2
    assert [batch.verify_budget for batch in batches] == [0, 2]
    assert [sum(batch.verify_lens or ()) for batch in batches] == [8, 8]
    assert [batch.rank_rows for batch in batches] == [(6, 6)] * 2


def test_different_confidences_make_different_windows_in_one_bucket() -> None:
    """If this fails, ranks plan with each other's confidences."""
    seen = set()
    for turn in range(4):
        batches = last_round(CONFIG, (3, 3), plan(3), plan(3, rotate=turn))
        assert len({batch.verify_bucket for batch in batches}) == 1
        seen |= {batch.verify_lens for batch in batches}
    assert len(seen) > 1


def test_nobody_replays_if_one_rank_fits_no_bucket() -> None:
    """If this fails, a rank replays while its peer has no graph to replay."""
    tight = replace(CONFIG, verify_buckets=(4, 6))
    assert graphs(last_round(tight, (1,), plan(0))) == [("replay", 1, 4)]
    batches = last_round(tight, (1, 3), plan(0), plan(9))
    assert graphs(batches) == [("eager", 1, None), ("eager", 3, None)]
    assert all(batch.verify_lens for batch in batches)  # they are ragged all the same


def test_an_idle_rank_fills_the_bucket_of_its_peers() -> None:
    """If this fails, an idle rank has no ragged layout, and replays another graph (RANK-9)."""
    for step in (plan(1), Step(graph=True)):  # whatever it would do by itself
        batches = last_round(CONFIG, (3, 0), plan(1), step)
        assert graphs(batches) == [("replay", 4, 8)] * 2
        assert batches[1].verify_lens == (2, 2, 2, 2)
        assert batches[1].verify_budget == 0


def test_an_idle_rank_has_windows_of_1_where_no_bucket_is_to_be_filled() -> None:
    """If this fails, an idle rank verifies more than its anchor, or replays another graph."""
    for config, step in ((ANY_TOKENS, plan(1)), (CONFIG, Step(graph=True, windows=(2, 3)))):
        batches = last_round(config, (2, 0), step, Step(graph=True))
        assert graphs(batches) == [("replay", 2, None)] * 2
        assert batches[1].verify_lens == (1, 1)


def test_an_idle_rank_is_uniform_beside_uniform_ranks_and_alone() -> None:
    """If this fails, an idle rank replays a ragged graph while its peers verify whole blocks."""
    for requests in ((2, 0), (0, 0)):
        batches = last_round(CONFIG, requests, Step(graph=True), plan(3))
        assert graphs(batches) == [("replay", max(1, requests[0]), None)] * 2
        assert [batch.verify_lens for batch in batches] == [None, None]


# ---- ragged ranks beside others


@pytest.mark.parametrize(
    "other",
    [
        Step(graph=True),
        Step(graph=True, draft_len=2),
        Step(graph=True, draft_len=0),
        Step(graph=True, windows=(1, 4)),
        Step(graph=True, age=0),
    ],
)
def test_ranks_of_different_kinds_run_eagerly(other: Step) -> None:
    """If this fails, a ragged rank replays beside one that verifies whole blocks."""
    batches = last_round(CONFIG, (2, 1), plan(1), other)
    assert graphs(batches) == [("eager", 2, None), ("eager", 1, None)]
    assert batches[0].verify_budget == 1


def test_an_idle_rank_at_another_length_keeps_its_peers_from_replaying() -> None:
    """If this fails, a ragged graph is replayed at r < K, where none was captured."""
    batches = last_round(CONFIG, (2, 0), plan(1), Step(graph=True, draft_len=0))
    assert graphs(batches) == [("eager", 2, None), ("eager", 1, None)]
    assert batches[1].verify_lens is None


def test_a_rank_with_prompts_keeps_nobody_from_being_ragged() -> None:
    """If this fails, a ragged step beside a peer with a prompt is refused, or replayed."""
    events = [*schedule((2, 1))[:-1], On(1, Submit(9, prompt=3)), Together((plan(1), plan(2)))]
    batches = checked(replay_ranks(CONFIG, 2, events))[-1]
    assert graphs(batches) == [("eager", 2, None), ("eager", 2, None)]
    assert batches[0].verify_budget == 1
    assert batches[1].verify_budget is None  # windows of the host's snapshot, beside a prompt
    assert batches[1].verify_lens is not None


def test_a_rank_whose_snapshot_failed_is_uniform_and_nobody_replays() -> None:
    """If this fails, one rank's failure makes its peers replay without it."""
    events = schedule((2, 1))[:-1]
    failing = Together((Step(), Step(fault="accept")))
    events += [failing, On(1, Submit(9, prompt=1, limit=9)), Together()]
    events += [Together((plan(1), plan(1)))]
    batches = checked(replay_ranks(CONFIG, 2, events))[-1]
    assert graphs(batches) == [("eager", 2, None), ("eager", 1, None)]
    assert [batch.verify_lens is None for batch in batches] == [False, True]


def test_what_is_agreed_on_is_the_same_whoever_asks() -> None:
    """If this fails, a rank's place in the list decides what it replays."""
    wishes = [
        Wish(2, 2, 3, graph=True, kind="bucket", load=Load(2, 4)),
        Wish(1, 1, 3, graph=True, kind="bucket", load=Load(1, 4)),
        Wish(1, 1, 3, graph=True, kind=None),
    ]
    for turn in range(3):
        agreed = agree(CONFIG, wishes[turn:] + wishes[:turn])
        assert (agreed.wanted, agreed.tokens, agreed.kind) == (2, 8, "bucket")
        assert agreed.rank_rows == (6, 6, 6)


# ---- I12 over ragged rounds


def told(batches: list[Batch]) -> Divergence:
    with pytest.raises(Divergence) as info:
        check_round(CONFIG, batches, [True] * len(batches))
    assert info.value.field == "I12"
    return info.value


def test_ranks_in_different_buckets_are_told() -> None:
    """If this fails, I12 passes ranks that replay different tiers."""
    one, two = last_round(CONFIG, (2, 1), plan(0), plan(2))
    check_round(CONFIG, [one, two], [True, True])
    found = told([replace(one, verify_bucket=4, verify_lens=(2, 2)), two])
    assert (found.expected, found.found) == (
        "rank 0: 2 rows, replay, 8 tokens",
        "2 rows, replay, 4 tokens",
    )


def test_a_total_beside_the_bucket_is_told() -> None:
    """If this fails, a rank's tokens need not be as many as its graph has."""
    one, two = last_round(CONFIG, (2, 1), plan(0), plan(2))
    found = told([one, replace(two, verify_lens=(4, 3))])
    assert (found.expected, found.found) == ("rank 1: 8 tokens", 7)


def test_an_idle_rank_without_the_layout_is_told() -> None:
    """If this fails, I12 passes an idle rank that replays another kind of graph."""
    one, idle = last_round(CONFIG, (3, 0), plan(1), Step(graph=True))
    uniform = replace(idle, verify_lens=None, verify_budget=None, verify_bucket=None)
    assert told([one, uniform]).found == "4 rows, replay, uniform"


def test_a_rank_that_replays_beside_another_kind_is_told() -> None:
    """If this fails, I12 passes ranks that replay different kinds of graphs."""
    one, two = last_round(CONFIG, (2, 2), plan(1), plan(1))
    uniform = replace(two, verify_lens=None, verify_budget=None, verify_bucket=None)
    assert told([one, uniform]).expected == "rank 0: 2 rows, eager"


# ---- campaigns


@pytest.mark.parametrize("make", [Model, TORCH, GRAPHS])
def test_a_correct_worker_passes_on_ragged_ranks(make: Any) -> None:
    """If this fails, a correct implementation is called wrong on some ragged ranks."""
    cases = 0
    for index in range(60 if make is Model else 30):
        made = seeded_world(8, index, 2 + index % 3, disturb=8)
        if made.config.confidence_scheduling:
            check_ranks(made, make)
            if cases % 4 == 0:
                behind(made, make)
            cases += 1
    assert cases > 5


def test_worlds_have_ragged_ranks_of_every_kind() -> None:
    """If this fails, a campaign says little about ragged ranks."""
    seen: Counter[str] = Counter()
    for index in range(120):
        seen += ragged_steps(seeded_world(9, index, 2 + index % 3))
    assert len(seen) == 5
    assert min(seen.values()) > 5, seen
