"""An engine so wrong that the simulation cannot go on: the watches still speak first."""

import pytest

from draftproof.properties.invariants import Invariants
from draftproof.reference.vocabulary import Batch, Config, ContextRow, GenerationRow
from draftproof.sim.divergence import Divergence
from draftproof.sim.engine import Engine
from draftproof.sim.events import AnyEvent, Step, Submit
from draftproof.sim.lockstep import check
from draftproof.sim.requests import Request
from draftproof.sim.run import replay

CONFIG = Config(max_draft_len=2, window_size=4, num_stages=1, max_num_requests=2)
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


class FeedsTwice(Engine):
    """Puts each request into its batches twice."""

    def _schedule(self, event: Step) -> list[Request]:
        return super()._schedule(event) * 2


class FailsToDeliver(Engine):
    """Raises when it is to hand over what a decoding request was given."""

    def _recipient(self, row: ContextRow | GenerationRow) -> Request | None:
        request = super()._recipient(row)
        if request is not None and request.decoding:
            raise KeyError(request.request_id)
        return request


def verdict(engine: type[Engine], watched: bool) -> Divergence:
    run = replay(CONFIG, EVENTS, engine)
    with pytest.raises(Divergence) as raised:
        check(run, watches=[Invariants(CONFIG)] if watched else [])
    return raised.value


def test_an_exception_in_the_engine_ends_the_run_there() -> None:
    """If this fails, one broken engine ends a whole campaign with a stack trace."""
    run = replay(CONFIG, EVENTS, LosesItsPlace)
    assert (len(run.events), len(run.steps)) == (4, 2)
    found = verdict(LosesItsPlace, watched=True)
    assert found.signature == ("exception", "RuntimeError")
    assert (found.event, found.found) == (3, "lost")


def test_what_the_watches_saw_before_comes_first() -> None:
    """If this fails, a crash hides the earlier mistake that led to it."""
    assert verdict(InventsDraftsFirst, watched=True).signature == ("invariant", "I18")
    assert verdict(InventsDraftsFirst, watched=False).signature == ("exception", "RuntimeError")


def test_an_exception_while_the_last_results_are_delivered_is_told_too() -> None:
    """If this fails, a fault that shows only at the end of a run is a crash."""
    run = replay(CONFIG, EVENTS[:3], FailsToDeliver)
    assert len(run.steps) == 2
    assert run.breakdown is not None
    assert run.breakdown.signature == ("exception", "KeyError")


def test_a_batch_that_cannot_be_served_is_a_broken_invariant() -> None:
    """If this fails, a wrong batch is reported as a crash of the model."""
    found = verdict(FeedsTwice, watched=False)
    assert found.signature == ("invariant", "batch")
    assert found.found == "a request id stands twice in the batch"
