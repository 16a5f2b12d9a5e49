"""The schedules that judge mutants: within the budget, and telling."""

import pytest

from draftproof.fuzz.coverage.catalogue import CATALOGUE
from draftproof.fuzz.coverage.observe import observe
from draftproof.fuzz.mutation import schedules
from draftproof.fuzz.mutation.scope import STEPS

# Of its own time it takes some seconds; on a busy machine it waits for more.
pytestmark = pytest.mark.timeout(600)


def test_so_many_steps_show_nearly_all_that_can_happen() -> None:
    """If this fails, mutants survive because what they spoil does not happen, or cost too much."""
    chosen = schedules.campaign()
    alone = sum(len(run.steps) for run in chosen.runs.values())
    ranked = sum(len(run.steps) for world in chosen.worlds.values() for run in world.ranks)
    assert 0.9 * STEPS < alone + ranked <= STEPS
    assert ranked <= schedules.RANKED
    points = {point for run in chosen.runs.values() for point in observe(run).hits}
    assert len(points & CATALOGUE.keys()) > 0.85 * len(CATALOGUE)
    assert any(step.fault for world in chosen.worlds.values() for step in world.ranks[1].steps)


def test_what_happened_before_is_worth_less() -> None:
    """If this fails, every case that is chosen shows the same, or cheap ones come last."""
    cases = {0: "aaab", 1: "ab", 2: "cd", 3: "c"}
    chosen = schedules._chosen(cases, lambda case: frozenset(case), len)
    assert [(index, steps) for index, _, steps in chosen] == [(1, 2), (2, 2), (3, 1), (0, 4)]
