"""An engine so wrong that the simulation cannot go on: the watches still speak first."""

from __future__ import annotations

import pytest
from batches import small

from draftproof.properties.invariants import Invariants
from draftproof.reference.vocabulary import Batch
from draftproof.sim.divergence import Divergence
from draftproof.sim.engine import Engine
from draftproof.sim.events import AnyEvent, Step, Submit
from draftproof.sim.lockstep import check
from draftproof.sim.requests import Request
from draftproof.sim.run import Run, replay

EVENTS: list[AnyEvent] = [Submit(0, limit=9), Step(), Step(), Step()]


class LosesItsPlace(Engine):
    """Raises instead of building its third batch."""

    def _step(self, event: Step) -> Batch:
        if self.forwards == 2:
            raise RuntimeError("lost")
        return super()._step(event)


class InventsDraftsFirst(LosesItsPlace):
    """Before that, verifies drafts that nobody proposed."""

    def _drafts(self, request: Request, row: int, draft_len: int) -> list[int]:
        return [7] * draft_len


def verdict(run: Run, watched: bool) -> Divergence:
    with pytest.raises(Divergence) as raised:
        check(run, watches=[Invariants(run.config)] if watched else [])
    return raised.value


def test_an_exception_in_the_engine_ends_the_run_there() -> None:
    """If this fails, one broken engine ends a whole campaign with a stack trace."""
    run = replay(small(), EVENTS, LosesItsPlace)
    assert (len(run.events), len(run.steps)) == (4, 2)
    found = verdict(run, watched=True)
    assert found.signature == ("exception", "RuntimeError")
    assert (found.event, found.found) == (3, "lost")


def test_what_the_watches_saw_before_comes_first() -> None:
    """If this fails, a crash hides the earlier mistake that led to it."""
    run = replay(small(), EVENTS, InventsDraftsFirst)
    assert verdict(run, watched=True).signature == ("invariant", "I18")
    assert verdict(run, watched=False).signature == ("exception", "RuntimeError")
