"""What may kill a mutant. Each oracle raises what it objects to; silence is survival.

The lockstep judges mutants of the worker. It never judges those of the model and of the engine, for
there it would be the worker that knows what is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module

from draftproof.fuzz.cases import Subject, seeded_case
from draftproof.fuzz.mutation import pinned
from draftproof.fuzz.mutation.scope import NOT_PINNED, PINNED, RECORDINGS, SEED, STEPS
from draftproof.fuzz.ranks.cases import RankSubject, seeded_world
from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import ImplementationError
from draftproof.sim.loading import load
from draftproof.sim.ranks import World
from draftproof.sim.recordings import validate
from draftproof.sim.run import Run

WORKERS = "draftproof.gpu.worker:make"
LIBRARIES = ("hypothesis", "llguidance", "msgspec", "numpy", "pytest")
"""What oracles import, if it is here, and no mutant has a part in."""
Begins = Callable[[], None]
RANKS, DISTURB = 2, 4
"""Worlds have so many ranks, and one step in so many has a fault more."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """The seeded schedules that judge mutants (`draftproof.fuzz.mutation.schedules`): single runs,
    and worlds of several ranks, by their indices."""

    runs: Mapping[int, Run]
    worlds: Mapping[int, World]


@dataclass(frozen=True, slots=True)
class Objection:
    """What an oracle says against a mutant, and after how many steps; told: in a few words."""

    steps: int
    told: str
    stillborn: bool = False


def import_libraries() -> None:
    """So that whoever is forked from here need not."""
    for name in LIBRARIES:
        with suppress(ModuleNotFoundError):
            import_module(name)


def lockstep(cases: Campaign, _: str, begins: Begins) -> Objection | None:
    """The worker against the model, over the campaign; graphs are on wherever there are any."""
    steps = 0
    try:
        several: list[Run | World] = [*cases.runs.values(), *cases.worlds.values()]
        for case in several:
            begins()
            make = load(WORKERS, options={"graphs": "on"} if case.config.graph_batch_sizes else {})
            if isinstance(case, World):
                checked = RankSubject(make).judge_world(case)
            else:
                checked = Subject(make).judge(case)
            steps += checked.steps
            if checked.faults_without_seam:
                return Objection(steps, "a fault met no seam")
    except ImplementationError as error:
        return Objection(steps, _text(error), stillborn=True)
    except Exception as error:  # noqa: BLE001 - what the worker itself passes
        return _objection(error, steps)
    return None


def journal(cases: Campaign, _: str, begins: Begins) -> Objection | None:
    """Engine and model alone, under the invariants, in the same cases."""
    steps = 0
    try:
        for index in cases.runs:
            begins()
            run = seeded_case(SEED, index)
            Subject(None).judge(run)
            steps += len(run.steps)
        for index in cases.worlds:
            begins()
            world = seeded_world(SEED, index, RANKS, disturb=DISTURB)
            steps += RankSubject(None).judge_world(world).steps
    except Exception as error:  # noqa: BLE001 - a schedule that engine and model serve
        return _objection(error, steps)
    return Objection(steps, "hardly any steps") if steps < STEPS // 2 else None


def recordings(_: Campaign, __: str, begins: Begins) -> Objection | None:
    """The recordings of the public worker against the model."""
    steps = 0
    for path in sorted(RECORDINGS.glob("*.jsonl")):
        try:
            begins()
            steps += validate(path)
        except Exception as error:  # noqa: BLE001 - a recording that agrees with the model
            return _objection(error, steps)
    return None


def pinned_examples(_: Campaign, about: str, begins: Begins) -> Objection | None:
    """The project's tests that know what comes out; first those of files named after this one."""
    try:
        pinned.check(PINNED, NOT_PINNED, about, begins)
    except pinned.PinnedError as error:
        return Objection(0, _text(error))
    return None


ORACLES: dict[str, Callable[[Campaign, str, Begins], Objection | None]] = {
    "lockstep": lockstep,
    "journal": journal,
    "recordings": recordings,
    "pinned": pinned_examples,
}
"""Each is given the campaign, the mutated module's name, and what it calls when a case begins."""


def _objection(error: Exception, before: int) -> Objection:
    """What an oracle raised; a call that lacks an argument is no logic, and no merit of theirs."""
    step = 0
    told = f"{type(error).__name__}: {_text(error)}"
    if isinstance(error, Divergence):
        with suppress(TypeError):
            step = error.step or 0
        told = f"{error.oracle} {error.field}: {error.found}"
    lacking = "TypeError" in told and "missing" in told and "required" in told
    return Objection(before + 1 + step, told, lacking)


def _text(error: Exception) -> str:
    return " ".join(str(error).split())[:120]
