"""Every check of planned windows turns red when one fact of a passing run is corrupted."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from planned.corruptions import CORRUPTIONS, Corrupt, passing_runs
from planted.facts import moments, raised_at

import draftproof.properties.planned as watch
from draftproof.properties.planned import Plans
from draftproof.sim.divergence import Divergence
from draftproof.sim.journal import Fed
from draftproof.sim.run import Run


def noticed(corrupt: Corrupt) -> Iterator[Divergence]:
    """What comes of each fact that the corruption fits."""
    for run in passing_runs():
        facts = [entry for entry in run.journal.entries if isinstance(entry, Fed)]
        for fact in facts:
            instead = corrupt(fact)
            if instead is None:
                continue
            try:
                shown(run, fact, instead)
            except Divergence as divergence:
                yield divergence


def shown(run: Run, fact: Fed, instead: Fed) -> None:
    """Let a watch see the run with one fact in the place of another."""
    plans = Plans(run.config)
    for entries, state in moments(run):
        plans.step([instead if entry is fact else entry for entry in entries], state)


@cache
def seen(corrupt: Corrupt) -> tuple[Divergence, ...]:
    return tuple(noticed(corrupt))


def test_without_corruption_nothing_is_broken() -> None:
    """If this fails, the corruptions below are not what is noticed."""
    for run in passing_runs():
        plans = Plans(run.config)
        for entries, state in moments(run):
            plans.step(entries, state)


@pytest.mark.parametrize(("rule", "corrupt"), CORRUPTIONS, ids=lambda x: getattr(x, "__name__", ""))
def test_it_breaks_this_rule(rule: str, corrupt: Corrupt) -> None:
    """If this fails, such a mistake passes, or is reported as another one."""
    assert rule in {divergence.field for divergence in seen(corrupt)}


def test_every_check_in_the_code_has_been_red() -> None:
    """If this fails, a check was written that nothing can break, or that nobody saw break."""
    written = {
        node.lineno
        for node in ast.walk(ast.parse(Path(watch.__file__).read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "broken"
    }
    red = {raised_at(found)[1] for _, corrupt in CORRUPTIONS for found in seen(corrupt)}
    assert written - red == set(), sorted(written - red)
