"""Every schedule of a small scope: exact counts, and what symmetry may not change."""

from __future__ import annotations

import re
from pathlib import Path as File

import pytest
from command import MODEL, draftproof

from draftproof.fuzz.cases import Subject
from draftproof.fuzz.explore.names import views
from draftproof.fuzz.explore.scope import Crossing, Scope
from draftproof.fuzz.explore.search import Explored, Path, Search
from draftproof.fuzz.explore.states import digest, memory
from draftproof.reference.vocabulary import Batch, Collaborators, Config, StepResult, Worker
from draftproof.sim.choices import Seeded
from draftproof.sim.events import Cancel, Pause, Step, Submit
from draftproof.sim.loading import load
from draftproof.sim.run import Simulation

TORCH = "draftproof.gpu.worker:make"
SMALL = Scope(depth=4)


def explore(scope: Scope, implementation: str | None, symmetry: bool = False) -> Explored:
    make = None if implementation is None else load(implementation)
    return Search(scope, Subject(make), symmetry).go()


@pytest.mark.parametrize(
    ("symmetry", "levels", "edges", "states", "model_states"),
    [
        (True, [1, 1, 6, 35, 193], 416, 236, 204),
        (False, [1, 1, 6, 44, 270], 450, 322, 322),
    ],
)
def test_counts_are_exact(
    symmetry: bool, levels: list[int], edges: int, states: int, model_states: int
) -> None:
    """If this fails, moves or states are lost, or told apart that are the same."""
    explored = explore(SMALL, TORCH, symmetry)
    assert explored.failure is None
    assert explored.levels == levels
    assert (explored.edges, explored.states) == (edges, states)
    assert explored.model_states == model_states


class Classes(Search):
    """Remembers what there was up to names, whatever states are told apart by."""

    def _new(self, simulation: Simulation, path: Path) -> bool:
        self.classes.add(digest([self.scope.spent(path), *views(simulation)]))
        return super()._new(simulation, path)

    classes: set[bytes]


@pytest.mark.parametrize("implementation", [MODEL, TORCH])
def test_symmetry_leaves_nothing_out(implementation: str) -> None:
    """If this fails, states were merged that do not lead to the same ones, up to names."""
    found = []
    for symmetry in (True, False):
        search = Classes(SMALL, Subject(load(implementation)), symmetry)
        search.classes = set()
        assert search.go().failure is None
        found.append(search.classes)
    assert found[0] == found[1]
    assert len(found[0]) == 204


def test_any_subset_may_be_in_a_batch() -> None:
    """If this fails, the nightly scope is no larger than that of CI."""
    subsets = Scope(depth=4, subsets=True)
    assert explore(subsets, None).edges > explore(SMALL, None).edges
    both = (Submit(0, 2, limit=6), Submit(1, 2, limit=6), Step(draft_len=0))
    assert _pauses(subsets, both) == {(), (0,), (1,), (0, 1)}
    assert _pauses(subsets, both[::2]) == {(), (0,)}
    assert _pauses(SMALL, both) == {()}
    simulation = Simulation(subsets.config())
    for event in (*both, Pause(0), Pause(1)):
        simulation.apply(event)
    expected = simulation.apply(Step(draft_len=0))
    assert expected is not None
    assert [row.incarnation for row in expected.batch.rows] == [0]  # the idle dummy alone


def test_moves_are_choices_like_any() -> None:
    """If this fails, only the exhaustive driver can walk through a scope, or it misses moves."""
    scope, path = Scope(subsets=True), (Submit(0, 2, limit=6), Step(draft_len=0))
    crossing, choices = Crossing(scope, path), Seeded(0)
    drawn = {crossing.choose(choices) for _ in range(2_000)}
    moves = list(scope.moves(path))
    assert drawn == set(moves)
    assert len(moves) == len(drawn)


def _pauses(scope: Scope, path: Path) -> set[tuple[int, ...]]:
    """Who is left out of the steps that may follow."""
    moves = [move for move in scope.moves(path) if isinstance(move[-1], Step)]
    return {tuple(pause.request for pause in move if isinstance(pause, Pause)) for move in moves}


@pytest.mark.parametrize(
    "defect",
    [
        "windows:FrameOffByOne",
        "windows:InterimRowsDropped",
        "steps:ZeroStepDoesNotAdvance",
        "slots:FreeQueueAsStack",
        "slots:EarlierLifeInherited",
    ],
)
def test_a_planted_defect_is_found_with_symmetry_and_without(defect: str) -> None:
    """If this fails, symmetry hides what is wrong, or nothing is looked at."""
    found = [explore(Scope(depth=5), f"draftproof.gpu.defects.{defect}", s) for s in (True, False)]
    shortest = [len(explored.failure[0]) for explored in found if explored.failure is not None]
    assert len(shortest) == 2
    assert shortest[0] == shortest[1]


def test_what_a_worker_leaves_behind_keeps_states_apart() -> None:
    """If this fails, a state whose hidden part differs is merged, and what follows never seen."""

    class Thing:
        def __init__(self, left: list[int]) -> None:
            self.shown, self.left = 1, left

    one, same, other = (digest(memory(Thing(left))) for left in ([0], [0], [1]))
    assert one == same
    assert one != other


class Remembers:
    """What the last prompt alone was drafted with, until a step behind it does not fail."""

    last = 0


class Called(Remembers):
    """The same in an object that can be called."""

    def __call__(self) -> int:
        return self.last


class Grudge:
    """A worker that fails by what it remembers of two steps ago, which shows nowhere before."""

    def __init__(self, worker: Worker, run: Remembers) -> None:
        self.worker, self.run = worker, run
        self.prepare, self.state = worker.prepare, worker.state

    def forward(self, batch: Batch) -> StepResult:
        r, alone = batch.draft_len, bool(batch.contexts) and not batch.generations
        if self.run.last == 2 and not batch.contexts and r == 1:
            raise RuntimeError("two")
        if alone:
            self.run.last = r
        result = self.worker.forward(batch)
        self.run.last = 0
        return result


@pytest.mark.parametrize("kind", [Remembers, Called])
def test_whatever_a_worker_remembers_in_keeps_states_apart(kind: type[Remembers]) -> None:
    """If this fails, a fault that waits in an object of the worker's own is never met."""
    make = load(TORCH)

    def grudge(config: Config, collaborators: Collaborators) -> Worker:
        return Grudge(make(config, collaborators), kind())

    explored = Search(SMALL, Subject(grudge)).go()
    assert explored.failure is not None
    assert len(explored.failure[0]) == 4


def test_the_command_counts_and_finds(tmp_path: File) -> None:
    """If this fails, `draftproof explore` does not do what the README says."""
    done = draftproof("explore", "--implementation", MODEL, "--events", 3, cwd=tmp_path)
    assert done.returncode == 0
    assert "edges            56\n" in done.stdout
    defect = "draftproof.gpu.defects.windows:FrameOffByOne"
    done = draftproof("explore", "--implementation", defect, "--events", 5, cwd=tmp_path)
    assert done.returncode == 1
    (trace,) = (tmp_path / "traces").glob("*.jsonl")
    assert f"draftproof replay traces/{trace.name}" in done.stdout
    assert draftproof("replay", trace, cwd=tmp_path).returncode == 1


def test_counts_that_are_not_those_expected_are_told(tmp_path: File) -> None:
    """If this fails, a night that has lost half of its schedules passes."""
    words = ("explore", "--implementation", MODEL, "--events", 3, "--expect")
    for right in ((56, 52, 52), (56, 41, 41, "--symmetry")):
        done = draftproof(*words, *right, cwd=tmp_path)
        assert (done.returncode, "was missed" in done.stdout) == (0, False), done.stdout
    done = draftproof(*words, 57, 52, 52, cwd=tmp_path)
    assert done.returncode == 6
    assert "a coverage goal was missed: expected 57 52 52, counted 56 52 52" in done.stdout


def test_the_page_says_what_is_counted_everywhere() -> None:
    """If this fails, the counts in the docs are not those that CI and `make campaign` ask for."""
    root = File(__file__).parents[2]
    page = (root / "docs" / "campaigns.md").read_text()
    asserted = (root / "Makefile").read_text() + (root / ".ci" / "run").read_text()
    commands = re.findall(r"draftproof (explore.*--expect) (\d+) (\d+) (\d+)", asserted)
    assert len({words for words, *_ in commands}) == 4
    for words, *counts in commands:
        told = [f"{int(count):,}" for count in counts]
        assert f"| `{words.removesuffix(' --expect')}` | {' | '.join(told)} |" in page


@pytest.mark.parametrize("words", [("--seam", "nowhere"), ("--events", 0), ("--block", "x")])
def test_an_impossible_scope_is_wrong_usage(tmp_path: File, words: tuple[object, ...]) -> None:
    """If this fails, a typing mistake explores something else."""
    assert draftproof("explore", "--implementation", MODEL, *words, cwd=tmp_path).returncode == 2


def test_what_the_scope_still_allows_belongs_to_the_state() -> None:
    """If this fails, a state reached with the fault spent hides what a fault does from there."""
    scope = Scope()
    first, second = (Submit(n, prompt=2, limit=6) for n in (0, 1))
    spent = (first, Step(draft_len=0, fault="draft"), second, Step(draft_len=0))
    kept = (first, Step(draft_len=0), Cancel(0), second, Step(draft_len=0))
    search = Search(scope, Subject(None))
    states = [search._simulate(path) for path in (spent, kept)]
    assert len({digest(views(simulation)) for simulation in states}) == 1
    assert [search._new(*pair) for pair in zip(states, (spent, kept), strict=True)] == [True, True]
    assert (scope.spent(spent), scope.spent(kept)) == ((2, True), (2, False))
