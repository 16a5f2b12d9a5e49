"""Each planted defect is found, soon, by the oracle meant for it, and is as small as it can be.

Searching takes long, so a tenth of the catalogue is searched for here, always the same; a third is
measured again by test_defects_table.py; of every one the shortest trace is run in test_found.py.
"""

import ast
import importlib
import inspect
from functools import cache

import pytest

from draftproof.fuzz.cases import Subject, seeded_case
from draftproof.fuzz.defects.catalogue import CATALOGUE, ENGINE_DEFECTS, Defect
from draftproof.fuzz.defects.finding import Found, find_seeded
from draftproof.reference.vocabulary import Collaborators
from draftproof.sim.loading import load

SEEDS = (0, 1)
MOST_STEPS = 5_000

CORRECT = Subject(load("draftproof.gpu.worker:make"))
GRAPHED = Subject(load("draftproof.gpu.worker:make", options={"graphs": "on"}))
NAMES = tuple(CATALOGUE)
SAMPLE = NAMES[4::10]
ENGINE_SAMPLE = tuple(name for name in SAMPLE if name in ENGINE_DEFECTS)
WORKER_SAMPLE = tuple(name for name in SAMPLE if name not in ENGINE_DEFECTS)
ALSO = {"roll-back-too-far": "exception", "lost-wake-up": "liveness"}
"""A matcher does not go back that far; and who waits for ever does nothing wrong."""


@cache
def found(name: str, seed: int) -> Found:
    failing = find_seeded(CATALOGUE[name].subject(), seed, MOST_STEPS)
    assert failing is not None, f"{name} lives through {MOST_STEPS} steps of seed {seed}"
    return failing


def planted(defect: Defect) -> type:
    """The class that holds the fault."""
    if defect.implementation is None:
        assert isinstance(defect.engine, type)
        return defect.engine
    module, _, factory = defect.implementation.partition(":")
    kind: type = getattr(importlib.import_module(module), factory)
    return kind


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", WORKER_SAMPLE)
def test_comparison_finds_each_worker_defect(name: str, seed: int) -> None:
    """If this fails, a faulty implementation passes, or crashes instead of being compared."""
    assert found(name, seed).divergence.oracle in ("comparison", ALSO.get(name))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ENGINE_SAMPLE)
def test_an_invariant_finds_each_engine_defect(name: str, seed: int) -> None:
    """If this fails, a fault of the engine hides behind a batch that both sides agree on."""
    assert found(name, seed).divergence.oracle in ("invariant", ALSO.get(name))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SAMPLE)
def test_without_the_defect_the_same_case_passes(name: str, seed: int) -> None:
    """If this fails, what was found is a fault of the harness, not the planted one."""
    graphed = ".graphs:" in (CATALOGUE[name].implementation or "")
    (GRAPHED if graphed else CORRECT).judge(seeded_case(seed, found(name, seed).case))


@pytest.mark.parametrize("name", SAMPLE)
def test_the_same_seed_finds_it_in_the_same_step(name: str) -> None:
    """If this fails, the table of step counts cannot be reproduced."""
    again, first = find_seeded(CATALOGUE[name].subject(), 0, MOST_STEPS), found(name, 0)
    assert again is not None
    assert (again.steps, again.case) == (first.steps, first.case)
    assert str(again.divergence) == str(first.divergence)


@pytest.mark.parametrize("name", NAMES)
def test_a_defect_changes_one_thing(name: str) -> None:
    """If this fails, a defect is no longer the smallest change that makes the mistake."""
    members = vars(planted(CATALOGUE[name]))
    changed = [one for one in members if not one.startswith("__") and one != "_abc_impl"]
    assert len(changed) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_defect_names_the_reports_it_resembles(name: str) -> None:
    """If this fails, catalogue and code tell two stories about one defect."""
    told = planted(CATALOGUE[name]).__doc__ or ""
    reports = CATALOGUE[name].reports
    assert all(report in told for report in reports)
    assert bool(reports) != ("no public report" in told.lower())


def test_every_planted_class_is_in_the_catalogue() -> None:
    """If this fails, a defect was written that nobody tries to find."""
    kinds = [planted(defect) for defect in CATALOGUE.values()]
    written = {
        node.name
        for module in {importlib.import_module(kind.__module__) for kind in kinds}
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }
    assert written == {kind.__name__ for kind in kinds}
    assert len(kinds) == len(set(kinds))


def test_a_planted_worker_takes_the_options_of_the_correct_one() -> None:
    """If this fails, `-o key=value` means something else for a defect than for the worker."""
    config = found("frame-off-by-one", 0).run.config
    name = CATALOGUE["frame-off-by-one"].implementation
    assert name is not None
    lent = Collaborators(lambda seam: None, lambda windows, start, bonus: ([], []))
    load(name, options={"dtype": "float32"})(config, lent)
    with pytest.raises(Exception, match="unknown option 'size': there are 'dtype', 'kernels'"):
        load(name, options={"size": "1"})(config, lent)
