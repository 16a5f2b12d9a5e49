"""What may kill a mutant. Each oracle raises what it objects to; silence is survival.

The lockstep judges mutants of the worker. It never judges those of the model and of the engine, for
there it would be the worker that knows what is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import count

from draftproof.fuzz.cases import LONG_EVERY, Subject, seeded_case
from draftproof.fuzz.mutation import pinned
from draftproof.fuzz.mutation.scope import NOT_PINNED, PINNED, RECORDINGS, SEED, STEPS
from draftproof.reference.vocabulary import Config
from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import ImplementationError
from draftproof.sim.loading import load
from draftproof.sim.recordings import validate
from draftproof.sim.run import Run

Cases = Mapping[int, Run]
WORKERS = "draftproof.gpu.worker:make"
LIBRARIES = ("hypothesis", "llguidance", "msgspec", "numpy", "pytest")
"""What oracles import, if it is here, and no mutant has a part in."""
OF_A_KIND, MANY = 3, 400
"""So many cases of a kind at most, and one more for so many that have been looked at."""


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


def campaign() -> Cases:
    """The runs that judge mutants, by the index of the seeded case: about `STEPS` steps.

    Short cases, of each kind of configuration a few at most, or what is rare would have no room;
    and the first long one. Also imports the worker, so that whoever is forked need not.
    """
    load(WORKERS)
    long = LONG_EVERY - 1
    cases, kinds = {long: seeded_case(SEED, long)}, Counter[object]()
    steps = len(cases[long].steps)
    for index in count():
        if steps >= STEPS:
            return cases
        run = seeded_case(SEED, index) if index % LONG_EVERY != long else cases[long]
        kinds[_kind(run.config)] += 1
        if index not in cases and kinds[_kind(run.config)] <= OF_A_KIND + index // MANY:
            cases[index] = run
            steps += len(run.steps)
    raise AssertionError("cases never end")


def _kind(config: Config) -> object:
    rules = config.use_rejection_sampling, config.drawn_uniforms, config.target_logits
    lengths = config.confidence_scheduling, config.draft_len_schedule is None
    return *rules, *lengths, config.target, bool(config.graph_batch_sizes)


def lockstep(cases: Cases, _: str) -> Objection | None:
    """The worker against the model, over the runs of `campaign`."""
    steps = 0
    for index, run in cases.items():
        graphs = {"graphs": "on"} if run.config.graph_batch_sizes and index % 2 else {}
        try:
            Subject(load(WORKERS, options=graphs)).judge(run)
        except ImplementationError as error:
            return Objection(steps, _text(error), stillborn=True)
        except Exception as error:  # noqa: BLE001 - a run that the worker itself passes
            return _objection(error, run, steps)
        steps += len(run.steps)
    return None


def journal(cases: Cases, _: str) -> Objection | None:
    """Engine and model alone, under the invariants, in the same cases."""
    steps, run = 0, None
    try:
        for index in cases:
            run = seeded_case(SEED, index)
            Subject(None).judge(run)
            steps += len(run.steps)
    except Exception as error:  # noqa: BLE001 - a schedule that engine and model serve
        return _objection(error, run, steps)
    return Objection(steps, "hardly any steps") if steps < STEPS // 2 else None


def recordings(_: Cases, __: str) -> Objection | None:
    """The recordings of the public worker against the model."""
    steps = 0
    for path in sorted(RECORDINGS.glob("*.jsonl")):
        try:
            steps += validate(path)
        except Exception as error:  # noqa: BLE001 - a recording that agrees with the model
            return _objection(error, None, steps)
    return None


def pinned_examples(_: Cases, about: str) -> Objection | None:
    """The project's tests that know what comes out; first those of files named after this one."""
    try:
        pinned.check(PINNED, NOT_PINNED, about)
    except pinned.PinnedError as error:
        return Objection(0, _text(error))
    return None


ORACLES: dict[str, Callable[[Cases, str], Objection | None]] = {
    "lockstep": lockstep,
    "journal": journal,
    "recordings": recordings,
    "pinned": pinned_examples,
}
"""Each is given the runs of `campaign` and the mutated module's name."""


def _objection(error: Exception, run: Run | None, before: int) -> Objection:
    """What an oracle raised; a call that lacks an argument is no logic, and no merit of theirs."""
    step = 1
    if run is not None:
        step = len(run.steps)
    told = f"{type(error).__name__}: {_text(error)}"
    if isinstance(error, Divergence):
        with suppress(TypeError):
            step = 1 + (error.step or 0)
        told = f"{error.oracle} {error.field}: {error.found}"
    lacking = "TypeError" in told and "missing" in told and "required" in told
    return Objection(before + step, told, lacking)


def _text(error: Exception) -> str:
    return " ".join(str(error).split())[:120]
