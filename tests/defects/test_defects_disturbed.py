"""Each planted defect of disturbed steps is found, by what it breaks, and not without it."""

from __future__ import annotations

import pytest

from draftproof.fuzz.cases import Subject
from draftproof.fuzz.defects.catalogue import CATALOGUE
from draftproof.fuzz.defects.disturbed import FAULT_ENGINES, FAULT_WORKERS
from draftproof.fuzz.defects.finding import Found, find_seeded
from draftproof.sim.loading import load
from draftproof.sim.run import replay

CORRECT = Subject(load("draftproof.gpu.worker:make"), live=True)
MOST_STEPS = 5_000

# What each breaks; the others are found by comparison.
BROKEN = {
    "clean-up-hides-the-error": {("exception", "fault")},
    "out-of-memory-retried": {("exception", "fault")},
    "answer-taken-unchecked": {("exception", "BatchError")},
    "chunk-retried": {("invariant", "I4")},
    "cancel-leaves-slot": {("invariant", "as asked")},
    "lost-wake-up": {("liveness", "no progress")},
}


def found(name: str) -> Found:
    failing = find_seeded(CATALOGUE[name].subject(), 1, MOST_STEPS)
    assert failing is not None, f"{name} lives through {MOST_STEPS} steps"
    return failing


@pytest.mark.parametrize("name", [defect.name for defect in (*FAULT_WORKERS, *FAULT_ENGINES)])
def test_it_is_found_by_what_it_breaks_and_only_where_it_is(name: str) -> None:
    """If this fails, a step that fails may leave something behind, and nobody sees it."""
    failing = found(name)
    signature = failing.divergence.signature
    assert signature in BROKEN.get(name, {signature})
    assert name in BROKEN or signature[0] == "comparison"
    CORRECT.judge(replay(failing.run.config, failing.run.events))
