"""Points of several ranks: each is hit by what it says, and a campaign that misses one is told."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from batches import small
from command import MODEL

from draftproof.fuzz.cli import main
from draftproof.fuzz.coverage.catalogue import CATALOGUE
from draftproof.fuzz.coverage.ranks import RANK_POINTS, rank_points
from draftproof.fuzz.ranks import faults
from draftproof.fuzz.ranks.cases import DISTURB, RANKS, seeded_world
from draftproof.fuzz.ranks.faults import Table, markdown
from draftproof.fuzz.supervise import CHILD
from draftproof.sim.events import Step, Submit, Warmup
from draftproof.sim.rank_events import On, RankEvent, Together
from draftproof.sim.ranks import World, replay_ranks

ENOUGH = 60_000
"""Steps within which every point is hit, those of every rank counted; for most seeds 20,000 are."""
SCHEDULE = ((1, 3), (2, 0))
ZERO, FAILS = Step(draft_len=0), Step(fault="draft")
GRAPH = Step(graph=True)


def test_every_point_is_hit_within_a_small_campaign() -> None:
    """If this fails, a pattern cannot come any more, or hits a name that nobody promised."""
    met: Counter[str] = Counter()
    steps = index = 0
    while steps < ENOUGH and not met.keys() >= RANK_POINTS.keys():
        world = seeded_world(0, index, 1 + index % RANKS, disturb=DISTURB)
        index += 1
        steps += sum(len(run.steps) for run in world.ranks)
        met += rank_points(world)
    assert [name for name in RANK_POINTS if name not in met] == []
    assert met.keys() <= RANK_POINTS.keys()
    assert not RANK_POINTS.keys() & CATALOGUE.keys()


def decoding(rank: int, request: int = 0) -> On:
    return On(rank, Submit(request, limit=40, imported=True))


def prompt(rank: int, request: int = 0) -> On:
    return On(rank, Submit(request, prompt=4, limit=40))


def played(ranks: int, *events: RankEvent, **config: Any) -> World:
    world = replay_ranks(small(**{"num_stages": 2, **config}), ranks, events)
    assert world.breakdown is None
    return world


def last(world: World) -> set[str]:
    """The points of the last forward, which is taken away."""
    whole = rank_points(world)
    for run in world.ranks:
        run.steps.pop()
    return {name.removeprefix("rank/") for name in whole - rank_points(world)}


BOTH = (decoding(0), decoding(1))
THREE = (*BOTH, decoding(2))
SIZES: dict[str, Any] = {"graph_batch_sizes": (1, 2, 4), "max_num_requests": 4}
BUSY = {"2 draft", "all busy"}


@pytest.mark.parametrize(
    ("ranks", "events", "points"),
    [
        (2, (*BOTH, Together()), BUSY),
        (2, (decoding(0), Together()), {"2 draft", "idle beside drafting"}),
        (2, (decoding(0), Together((Step(), ZERO))), {"idle at r = 0 beside drafting"}),
        (2, (decoding(0), prompt(1), Together()), {"prompts beside drafting"}),
        (2, (prompt(1), Together((ZERO,))), {"prompts beside idle", "prompts, nobody drafts"}),
        (2, (*BOTH, Together((Step(), ZERO))), {"r = 0 beside drafting"}),
        (2, (*BOTH, Together((ZERO, ZERO))), {"r = 0, nobody drafts"}),
        (2, (Together((ZERO, ZERO)),), {"all idle"}),
        (2, (*BOTH, Together((Step(), Step(draft_len=1)))), {"r of its own", *BUSY}),
        (2, (*BOTH, decoding(0, 1), Together()), {"rows of its own", *BUSY}),
        (
            3,
            (*THREE, Together((Step(), ZERO, ZERO))),
            {"one drafts alone", "r = 0 beside drafting"},
        ),
        (
            3,
            (*THREE, Together((Step(), Step(), ZERO))),
            {"all but one draft", "r = 0 beside drafting", "2 draft"},
        ),
        (3, (*THREE, Together()), {"3 draft", "all busy"}),
        (2, (*BOTH, Together((ZERO,)), Together()), {"zero, then drafts", *BUSY}),
        (2, (decoding(0), Together(), decoding(1), Together()), {"idle, then busy", *BUSY}),
        (2, (Together((Warmup(), Warmup())),), {"warm-up"}),
        (2, (Together((Warmup(fault="draft"), Warmup())),), {"warm-up", "warm-up, one fails"}),
        (2, (*BOTH, Together((FAILS,))), {"draft on one", *BUSY}),
        (2, (*BOTH, Together((FAILS, FAILS))), {"two fail", *BUSY}),
        (2, (decoding(0), Together((Step(), FAILS))), {"idle fails", "draft on one", "2 draft",
                                                      "idle beside drafting"}),
        (2, (*BOTH, Together((Step(draft_len=0, fault="draft"),))),
         {"fails without drafts", "draft on one", "r = 0 beside drafting"}),
        (2, (*BOTH, Together((Step(draft_len=0, fault="draft"), ZERO))),
         {"fails, nobody drafts", "r = 0, nobody drafts"}),
    ],
)  # fmt: skip
def test_a_point_is_hit_by_what_it_says(
    ranks: int, events: tuple[RankEvent, ...], points: set[str]
) -> None:
    """If this fails, a pattern is counted for something else."""
    assert last(played(ranks, *events)) == points


@pytest.mark.parametrize(
    ("events", "points"),
    [
        ((*BOTH, Together((GRAPH, GRAPH))), {"replay"}),
        ((decoding(0), Together((GRAPH, GRAPH))), {"replay", "replay, idle"}),
        (
            (*BOTH, decoding(0, 1), Together((GRAPH, GRAPH))),
            {"replay", "replay, padded for a peer"},
        ),
        (
            (*BOTH, Together((GRAPH, Step(draft_len=1, graph=True)))),
            {"replay", "replay, r differs"},
        ),
        (
            (*BOTH, Together((GRAPH, Step(draft_len=0, graph=True)))),
            {"replay", "replay, one without drafts"},
        ),
        ((decoding(0), prompt(1), Together((GRAPH, GRAPH))), {"eager for a peer's prompt"}),
        ((*BOTH, Together((GRAPH,))), set()),
    ],
)
def test_points_of_graphs(events: tuple[RankEvent, ...], points: set[str]) -> None:
    """If this fails, replays and their padding are counted for something else."""
    found = last(played(2, *events, **SIZES))
    assert {name for name in found if name.startswith(("replay", "eager"))} == points


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_a_failing_rank_has_crossed_as_many_stages_as_its_point_says(stages: int) -> None:
    """If this fails, a stage counts as one before which a rank failed, though none did there."""
    fails = Together((Step(fault="stage"), Step()))
    for number in range(stages):
        world = played(2, *[Together()] * number, *BOTH, fails, num_stages=stages)
        own = [rows for _, rows, _ in world.ranks[0].steps[-1].crossed]
        assert own == [3] * number + [1] * (stages - number)
        assert f"before stage {min(3, number)}" in last(world)


def test_one_rank_has_no_patterns() -> None:
    """If this fails, worlds of one rank make a campaign look as if ranks had met."""
    assert rank_points(played(1, decoding(0), Together(), Together((FAILS,)))) == Counter()


def test_the_page_tells_how_often() -> None:
    """If this fails, the page leaves a pattern out, or tells another number."""
    table = Table(patterns=Counter({"rank/all idle": 1234}))
    page = markdown(table, "this", {})
    assert "| all idle | no rank has requests | 1,234 |" in page
    assert page.count(" | 0 |\n") >= len(table.unmet) == len(RANK_POINTS) - 1


def test_a_pattern_that_never_came_ends_the_campaign_with_exit_code_6(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, ranks of which none was ever idle are taken for a full campaign."""
    monkeypatch.setenv(CHILD, str(tmp_path / "case.jsonl"))  # in this process, not in a child
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(faults, "ROWS", ())  # no fault has to happen
    monkeypatch.setattr(faults, "RANK_POINTS", {"rank/2 draft": ""})
    words = ["faults", "--implementation", MODEL, "--steps", "100"]
    assert main(words) == 0
    monkeypatch.setattr(faults, "RANK_POINTS", {"rank/2 draft": "", "rank/9 draft": ""})
    assert main(words) == 6
    assert "never met: rank/9 draft" in capsys.readouterr().out
