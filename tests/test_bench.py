"""`draftproof bench`: every figure is there, and the yardstick is a fair one. Never a timing."""

import json
from collections import Counter
from dataclasses import replace
from itertools import groupby
from typing import Any

import msgspec
import pytest
from hypothesis.stateful import RuleBasedStateMachine

from draftproof.fuzz.bench.failures import Search
from draftproof.fuzz.bench.figures import Figure, Goal, geometric_mean, tables
from draftproof.fuzz.bench.generation import make_schedule
from draftproof.fuzz.bench.kernels import (
    JOINED,
    MAKERS,
    MARKOV,
    NEEDS_A_GPU,
    SETTINGS,
    SMALL_SHAPE,
    needed,
    settings_for,
    shapes_for,
)
from draftproof.fuzz.bench.kernels import measure as measure_kernels
from draftproof.fuzz.bench.lockstep import SHAPES, steady_schedule
from draftproof.fuzz.bench.sizes import QUICK
from draftproof.fuzz.bench.state_machine import LockstepMachine, ScheduleMachine, drive
from draftproof.fuzz.campaign.chunks import DRIVERS
from draftproof.fuzz.cases import EVENTS_PER_CASE, Subject
from draftproof.fuzz.cli import main
from draftproof.fuzz.defects.catalogue import CATALOGUE
from draftproof.reference.vocabulary import Config
from draftproof.sim.choices import Seeded
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import KINDS, AnyEvent
from draftproof.sim.loading import load
from draftproof.sim.run import replay
from draftproof.sim.shapes import listed

FIRST_DEFECT = next(iter(CATALOGUE))
SHAPE_NAMES = tuple(f"W={window}, {requests} requests" for window, requests, _ in SHAPES)
WAYS = ("seeded", "Hypothesis", "state machine")
RATIOS = ("machine / seeded", "machine / Hypothesis")
COSTS = ("engine and model", "invariants", "isolation", "state()", "comparison and the rest")

# Rows and columns of each part.
EXPECTED = {
    "lockstep": {
        (name, shape)
        for shape in SHAPE_NAMES
        for name in (
            "whole / worker",
            "harness",
            *(f"- {cost}" for cost in COSTS),
            "worker",
            "request-steps a step",
            "mixed steps",
        )
    },
    "generation": {
        *(("events", way) for way in WAYS),
        *(("times the state machine", way) for way in WAYS[:2]),
    },
    "throughput": {
        *(("checked steps", way) for way in WAYS),
        *(("times the state machine", way) for way in WAYS[:2]),
    },
    "failures": {
        *((FIRST_DEFECT, column) for column in (*WAYS, *RATIOS)),
        *(("geometric mean", ratio) for ratio in RATIOS),
        *(("worst", ratio) for ratio in RATIOS),
    },
    "memory": {("in use after 100 steps", "campaign"), ("growth in 400 more", "campaign")},
    "drivers": {
        *((name, driver) for name in ("checked steps", "coverage") for driver in DRIVERS),
        *((name, "bytes") for name in ("checked steps", "coverage")),
        *(
            (name, workers)
            for name in ("checked steps on the clock", "times one worker")
            for workers in ("1 worker", "2 workers")
        ),
    },
    "kernels": {
        (name, f"{kind}, 2 requests")
        for kind in ("greedy step", "sampled step", "drafted block", "Markov chain")
        for name in (
            *("copy bandwidth", "must move", "at copy bandwidth", "eager", "eager / copy"),
            *("Triton, interpreted", "Triton, interpreted / copy"),
        )
    }
    | {
        (f"Triton, joined, interpreted{ratio}", "Markov chain, 2 requests")
        for ratio in ("", " / copy")
    },
}
GOALS = {
    "lockstep": 2,
    "generation": 1,
    "throughput": 2,
    "failures": 4,
    "memory": 1,
    "drivers": 4,
    "kernels": 0,
}


def run_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["bench", "--quick", "--json", *words]) == 0
    record: dict[str, Any] = json.loads(capsys.readouterr().out)
    return record


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(part, marks=pytest.mark.interpreted if part == "kernels" else ())
        for part in EXPECTED
    ],
)
def test_a_part_gives_all_its_figures(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, the table has lost a figure, or a goal that it is held against."""
    figures = run_json(capsys, "--part", part)["figures"]
    assert {(figure["name"], figure["column"]) for figure in figures} == EXPECTED[part]
    assert len(figures) == len(EXPECTED[part])
    assert {tuple(figure) for figure in figures} == {
        ("part", "name", "column", "value", "unit", "goal", "met")
    }
    assert {figure["part"] for figure in figures} == {part}
    assert all(isinstance(figure["value"], float) and figure["unit"] for figure in figures)
    goals = [figure for figure in figures if figure["goal"] is not None]
    assert len(goals) == GOALS[part]
    assert all(figure["met"] in (True, False) for figure in goals)
    assert all(figure["met"] is None for figure in figures if figure["goal"] is None)


def test_the_record_says_what_the_figures_depend_on(capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, two tables cannot be compared, since nobody knows what made them."""
    environment = run_json(capsys, "--part", "generation")["environment"]
    assert set(environment) == {"python", "torch", "hypothesis", "machine", "cores", "device"}
    assert environment["device"] == "cpu"
    assert environment["cores"] >= 1


def test_people_get_tables(capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, the tables are not such as Markdown understands, or a part is missing."""
    assert main(["bench", "--quick", "--part", "throughput", "generation"]) == 0
    environment, *lines = capsys.readouterr().out.splitlines()
    assert environment.startswith("python ")
    parts = [list(part) for blank, part in groupby(lines, lambda line: not line) if not blank]
    assert [part[0].split()[1] for part in parts] == ["generation", "throughput"]
    assert [len(part) for part in parts] == [4, 4]
    assert all(len({len(line) for line in part}) == 1 for part in parts)


def test_a_missed_goal_is_told() -> None:
    """If this fails, a figure on the wrong side of its goal looks like one on the right side."""
    figures = [
        Figure("a", "slow", "b", 3.0, "x", Goal(2.5)),
        Figure("a", "quick", "b", 3.0, "x", Goal(2.5, at_least=True)),
        Figure("a", "plain", "c", 1234.5, "per s"),
    ]
    assert tables(figures) == [
        "| a            | b                     | c     |",
        "| ------------ | --------------------- | ----- |",
        "| slow         | 3.00x (<= 2.5 MISSED) |       |",
        "| quick        | 3.00x (>= 2.5 met)    |       |",
        "| plain, per s |                       | 1,234 |",
    ]
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


@pytest.mark.interpreted
def test_what_needs_a_gpu_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, whoever has no GPU takes the interpreter's speed for that of a kernel."""
    names = {figure.name for column in measure_kernels(QUICK, "cpu") for figure in column}
    assert capsys.readouterr().err == NEEDS_A_GPU + "\n"
    assert all("interpreted" in name for name in names if "Triton" in name)
    assert not any("replayed" in name for name in names)


def test_published_sizes_are_not_interpreted() -> None:
    """If this fails, the table of a CPU takes minutes."""
    large, small = shapes_for("cpu", published=True)
    assert (large.vocab, large.small, small) == (129_280, False, SMALL_SHAPE)
    assert [shape.rows for shape in shapes_for("cuda", published=True)] == [(8, 64)]
    assert shapes_for("cpu", False) == shapes_for("cuda", False) == [SMALL_SHAPE]
    for kind in MAKERS:
        assert list(settings_for(kind, "cpu", small=False)) == ["eager"]
        joined = JOINED if kind == MARKOV else {}
        assert settings_for(kind, "cuda", small=False) == SETTINGS | joined


@pytest.mark.interpreted
@pytest.mark.parametrize("kind", MAKERS)
def test_the_steps_that_are_timed_are_one_step(kind: str) -> None:
    """If this fails, a ratio of Triton's, or of a replay's, is that of something else.

    They cannot be timed here, but run they can.
    """
    settings = settings_for(kind, "cuda", small=False)
    eager, *others = [MAKERS[kind](SMALL_SHAPE, 7, "cpu", *how) for how in settings.values()]
    for _ in range(2):
        expected = drafted(eager.do())
        for other in others:
            assert drafted(other.do()) == expected
            assert other.needed == eager.needed


def drafted(result: Any) -> Any:
    """Tokens of a step, or of a block."""
    if not hasattr(result, "new_tokens"):
        return listed(result)
    assert listed(result.new_tokens_lens) == [1, 2, 3, 4, 5, 6, 1]
    return listed(result.new_tokens), listed(result.next_draft_tokens)


def test_the_bytes_of_a_step_by_hand() -> None:
    """If this fails, ratios are to bytes that the step need not move, or not to all that it must.

    Two requests, W = 16, three stages, seven components of two bytes: a row of 42 bytes in the
    window; K = 5. One got 2 tokens, the other all 6.
      looked at   5 drafts, slot, position, sequence slot; 6 of the target's tokens: 14 words
      counters    two words and a flag, read and written: 34 bytes
      results     6 + 1 + 5 + 6 words, and a stamp: 19 words; 5 confidences of 4 bytes
      rows        16 visible ones each, 8 accepted ones of 7 bytes read and 42 stored
    Sampled: proposed, greedy, seed, life instead of the target's tokens: 13 words; q at both
    endings, p at one; five rows of p written for each.
    """
    greedy = 2 * (14 * 8 + 34 + 19 * 8 + 20 + 16 * 42) + 8 * (7 + 42)
    config = Config(5, 16, 3, 2, vocab_size=512)
    assert needed(config, [2, 6]) == greedy
    sampled = greedy - 2 * 8 + (2 + 1 + 2 * 5) * 512 * 4
    assert needed(replace(config, use_rejection_sampling=True), [2, 6]) == sampled


@pytest.mark.parametrize(("window", "requests"), [(16, 8), (16, 64), (128, 8)])
def test_the_batches_of_the_lockstep_are_full(window: int, requests: int) -> None:
    """If this fails, the figures for 8 and 64 requests are those of smaller batches."""
    run = replay(Config(5, window, 3, requests), steady_schedule(requests, 60))
    batches = [expected.batch for expected in run.steps]
    assert all(len(batch.rows) == requests for batch in batches)
    assert 0 < sum(bool(b.contexts and b.generations) for b in batches) < len(batches)
    assert {batch.mode for batch in batches} == {"eager"}


# ---- the yardstick -------------------------------------------------------------------------------


def test_the_state_machine_has_the_weights_of_the_campaigns() -> None:
    """If this fails, the state machine is compared at other schedules than ours."""
    rules = Counter(rule.function.__name__ for rule in ScheduleMachine.setup_state().rules)
    assert rules == Counter(kind.__name__.lower() for kind in KINDS)


def test_the_state_machine_leaves_nothing_out() -> None:
    """If this fails, the state machine saves itself the work for some events or parameters."""
    seen: list[AnyEvent] = []

    class Recording(ScheduleMachine):
        def happen(self, event: AnyEvent) -> None:
            super().happen(event)
            seen.append(event)

    drive(Recording, 0, 300)
    assert 0.5 < len(seen) / (300 * EVENTS_PER_CASE) <= 1.0  # Hypothesis cuts some short
    for kind in KINDS:
        ours = [event for event in seen if type(event) is kind]
        for field in msgspec.structs.fields(kind):
            assert len({getattr(event, field.name) for event in ours}) > 1, (kind, field.name)
    assert len(make_schedule(Seeded(0))) == EVENTS_PER_CASE


def machine(subject: Subject) -> type[LockstepMachine]:
    class Machine(LockstepMachine):
        pass

    Machine.subject = subject
    assert issubclass(Machine, RuleBasedStateMachine)
    return Machine


def test_the_state_machine_passes_what_is_correct() -> None:
    """If this fails, its time to the first failure is that of a false alarm."""
    drive(machine(Subject(load("draftproof.gpu.worker:make"))), 0, 30)


@pytest.mark.parametrize("name", ["frame-off-by-one", "stale-drafts"])
def test_the_state_machine_sees_what_the_campaigns_see(name: str) -> None:
    """If this fails, the state machine is slow since it lacks an oracle: workers', engines'."""
    with pytest.raises(Divergence):
        drive(machine(CATALOGUE[name].subject()), 0, 200)


def test_a_search_gives_up() -> None:
    """If this fails, a defect that is never found keeps the table waiting for ever."""
    search = Search(0.0)
    assert list(search.seeds(0)) == []
    assert search.outcome() == 0.0


def test_a_search_ends_at_the_first_failure() -> None:
    """If this fails, the time until the report of a failure is taken for that of its find."""
    search = Search(60.0)
    for _ in range(2):
        with pytest.raises(Divergence), search.watching():
            raise Divergence("comparison", "windows")
        first = search.outcome()
    assert first == search.outcome() < 60.0
    assert list(search.seeds(0)) == []
