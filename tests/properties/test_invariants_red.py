"""Every invariant turns red when one fact of a passing run is corrupted, and names itself."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from planted import answers, batches, counts, guided, packing, states
from planted.facts import PLANTED, Planted, noticed, passing_runs, raised_at

import draftproof.properties.invariants as watch
from draftproof.sim.divergence import Divergence
from draftproof.sim.lockstep import check

FILES = ("fed.py", "answered.py", "states.py", "guided.py", "counted.py")
assert {packing, batches, answers, counts, states, guided}, "importing them fills PLANTED"

# Those that have to be checked over journal and states; the others are for later.
WANTED = {f"I{n}" for n in (1, 2, 3, 4, 5, 6, 7, 9, 10, 13, 14, 15, 16, 17, 18, 20, 21)}


@cache
def seen(planted: Planted) -> list[Divergence]:
    """How the corruption shows in the first few runs that it fits."""
    return list(islice(noticed(planted), 5))


def test_without_corruption_nothing_is_broken() -> None:
    """If this fails, the corruptions below are not what the invariants notice."""
    assert sum(check(run, None, [watch.Invariants(run.config)]).steps for run in passing_runs())


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_it_breaks_exactly_this_invariant(planted: Planted) -> None:
    """If this fails, such a mistake passes, or is reported as another one."""
    found = seen(planted)
    assert found, "no passing run has such a fact, or nobody noticed"
    assert {divergence.field for divergence in found} == {planted.invariant}
    oracles = {divergence.oracle for divergence in found}
    assert oracles <= {"invariant", "plain decode"}


def test_every_invariant_of_the_journal_is_broken_by_something() -> None:
    """If this fails, an invariant is listed in the documents and checked by nobody."""
    assert {planted.invariant for planted in PLANTED} >= WANTED


def test_every_check_in_the_code_has_been_red() -> None:
    """If this fails, a check was written that nothing can break, or that nobody saw break."""
    folder = Path(watch.__file__).parent
    written = {
        (name, node.lineno)
        for name in FILES
        for node in ast.walk(ast.parse((folder / name).read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "broken"
    }
    red = Counter(raised_at(divergence) for planted in PLANTED for divergence in seen(planted))
    assert written - red.keys() == set()
    assert red.keys() - written == set()
