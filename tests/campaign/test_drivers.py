"""The drivers behind the choices: what each does with them."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from draftproof.fuzz.campaign.chunks import DRIVERS, mixed_case
from draftproof.fuzz.cases import Subject, seeded_case
from draftproof.fuzz.coverage.rare import RARE, rare_points
from draftproof.fuzz.driving.contest import (
    advantage,
    hard,
    markdown,
    seeds_that_find,
    steps_until,
)
from draftproof.fuzz.driving.exhaustive import every
from draftproof.fuzz.driving.one_sided import KINDS, ONE_SIDED, OneSided
from draftproof.fuzz.driving.raw import fuzz_one_input
from draftproof.fuzz.driving.swarm import Swarm, swarm_case
from draftproof.reference.vocabulary import Config
from draftproof.sim.choices import Choices, Seeded
from draftproof.sim.divergence import Divergence
from draftproof.sim.engine import Engine
from draftproof.sim.events import KINDS as EVENT_KINDS
from draftproof.sim.events import (
    AnyEvent,
    Cancel,
    Step,
    Submit,
    Warmup,
    choose_event,
)
from draftproof.sim.loading import load
from draftproof.sim.run import Run, replay

CONFIG = Config(3, 4, 1, 4)
DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_case_is_the_same_every_time(driver: str) -> None:
    """If this fails, a seed and an index do not say what was checked."""
    case = DRIVERS[driver]
    for index in (0, 1, 7):
        first, second = (case(3, index, Engine) for _ in range(2))
        assert (first.config, first.events) == (second.config, second.events)
    assert case(3, 0, Engine).events != case(4, 0, Engine).events


def spelled(choices: Choices) -> str:
    """A word of up to three letters a and b."""
    return "".join("ab"[choices.below(2)] for _ in range(choices.below(4)))


def test_the_exhaustive_driver_leaves_nothing_out_and_repeats_nothing() -> None:
    """If this fails, an exploration that found nothing has not tried everything."""
    words = [""] + ["".join(w) for n in (1, 2, 3) for w in product("ab", repeat=n)]
    assert list(every(spelled)) == words
    assert list(every(lambda choices: 7)) == [7]


def test_what_asks_differently_after_the_same_answers_is_told() -> None:
    """If this fails, an exploration of something that changes by itself passes as complete."""
    bounds = iter((2, 3))
    with pytest.raises(ValueError, match="choice 0 was below 2 and is now below 3"):
        list(every(lambda choices: choices.below(next(bounds))))
    with pytest.raises(ValueError, match="nothing to choose from"):
        list(every(lambda choices: choices.below(0)))


def kinds_of(seed: int) -> Counter[type]:
    choices = Swarm(Seeded(seed))
    events = [choose_event(CONFIG, choices, [0, 1, 2], 3) for _ in range(300)]
    return Counter(type(event) for event in events)


def test_a_swarm_leaves_kinds_out_and_weighs_the_others() -> None:
    """If this fails, swarm cases are as mixed as all others."""
    counts = [kinds_of(seed) for seed in range(40)]
    assert all(count[Step] for count in counts)
    for kind in dict.fromkeys(EVENT_KINDS):
        if kind is not Step:
            absent = sum(not count[kind] for count in counts)
            assert 5 < absent < 35, kind
    shares = [count[Step] / count.total() for count in counts]
    assert min(shares) < 0.15
    assert max(shares) > 0.85


def test_a_mixed_campaign_takes_turns() -> None:
    """If this fails, half of what the default driver should find is never looked for."""
    assert mixed_case(1, 4).events == seeded_case(1, 4).events
    assert mixed_case(1, 5).events == swarm_case(1, 5).events


def buffers(count: int) -> list[bytes]:
    chance = random.Random(0)
    return [chance.randbytes(400) for _ in range(count)]


def test_bytes_drive_schedules() -> None:
    """If this fails, a byte fuzzer drives nothing, or not the same twice."""
    runs: list[Run] = []
    one = fuzz_one_input(Subject(None), runs.append)
    used = [one(data) for data in buffers(30)]
    first = [run.events for run in runs]
    assert sum(map(len, first)) > 50
    assert any(used)
    runs.clear()
    assert [one(data) for data in buffers(30)] == used
    assert [run.events for run in runs] == first


def test_bytes_find_a_planted_defect() -> None:
    """If this fails, a byte fuzzer is told of no failure."""
    one = fuzz_one_input(Subject(load("draftproof.gpu.defects.windows:FrameOffByOne")))

    def all_of_them() -> None:
        for data in buffers(60):
            one(data)

    with pytest.raises(Divergence):
        all_of_them()


def test_every_rare_point_can_be_looked_for() -> None:
    """If this fails, the contest of the drivers counts something that nobody described."""
    found = {name for index in range(150) for name in rare_points(swarm_case(0, index))}
    assert found <= RARE.keys()
    assert len(found) > 8


def test_the_page_says_what_was_measured() -> None:
    """If this fails, the table in the docs is not that of the record beside it."""
    record = json.loads((DOCS / "drivers.json").read_text())
    points, defects, then = record["points"], record["defects"], record["then"]
    assert points.keys() == defects.keys() == DRIVERS.keys()
    assert all(list(medians) == list(RARE) for medians in (*points.values(), *then.values()))
    assert all(list(found) == [defect.name for defect in ONE_SIDED] for found in defects.values())
    assert (DOCS / "drivers.md").read_text() == markdown(record)
    assert advantage(then["guided"], then["swarm"]) < 1.5  # or it would still be here
    assert "guided" not in DRIVERS


def test_a_contest_counts_steps() -> None:
    """If this fails, the contest measures something else than steps until a point is met."""
    runs = [swarm_case(0, index) for index in range(20)]
    steps = steps_until(iter(runs), sum(len(run.steps) for run in runs))
    name = min(steps, key=lambda point: steps[point])
    first = min(i for i, run in enumerate(runs) if name in rare_points(run))
    before = sum(len(run.steps) for run in runs[:first])
    assert steps[name] == before + rare_points(runs[first])[name] + 1


def test_a_one_sided_defect_wakes_behind_its_run_and_not_before() -> None:
    """If this fails, what the drivers are compared by needs no long runs, or is never found."""
    config = Config(2, 4, 1, 4, graph_batch_sizes=(4,))
    two = (Submit(0, limit=200, imported=True), Submit(1, limit=200, imported=True))
    turn = [(Submit(n + 2, limit=9, imported=True), Step(), Cancel(n + 2)) for n in range(9)]
    events: dict[str, tuple[Sequence[AnyEvent], Sequence[AnyEvent]]] = {
        "warm-ups": ((), [Warmup()] * 8),
        "idle": ((), [Step()] * 8),
        "prompts": ((Submit(0, prompt=20),), [Step(chunk=1)] * 8),
        "zeros": (two, [Step(draft_len=0)] * 8),
        "replays": (two, [Step(graph=True)] * 8),
        "steady": ((*two, Step()), [Step()] * 8),
        "turnover": ((), [event for three in turn[:8] for event in three]),
    }
    assert events.keys() == KINDS.keys()
    for kind, (before, run) in events.items():
        one = 3 if kind == "turnover" else 1
        other = Step() if kind == "warm-ups" else Warmup()
        long, short = replay(config, (*before, *run)), replay(config, (*before, *run[:-one]))
        assert [OneSided(kind, 8).found(case) for case in (long, short)] == [True, False], kind
        assert not OneSided(kind, 9).found(long), kind
        again = replay(config, (*before, *run[:-one], other, *run[-one:]))
        assert not OneSided(kind, 8).found(again), kind


def test_seeds_are_counted_that_find_a_defect() -> None:
    """If this fails, the contest says of a driver that it finds what it does not."""
    found = seeds_that_find("swarm", range(2), 400)
    assert list(found) == [defect.name for defect in ONE_SIDED]
    assert 0 < max(found.values()) <= 2
    assert found["idle 16"] == 0
    assert hard({"a": 9, "b": 10}) == ["a"]
