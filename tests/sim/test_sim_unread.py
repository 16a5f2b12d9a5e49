"""After some steps nobody looks at the state."""

from __future__ import annotations

from typing import Any

import pytest
from batches import small
from schedules import play
from spoilers import plain

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Batch, StepResult, WorkerState
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import Step, Submit
from draftproof.sim.lockstep import check


class RepairsWhenAsked(Model):
    """Is one frame behind until somebody looks."""

    behind = 0

    def forward(self, batch: Batch) -> StepResult:
        result = super().forward(batch)
        self._move(-1)
        return result

    def state(self) -> WorkerState:
        self._move(-self.behind)
        return super().state()

    def _move(self, frames: int) -> None:
        self.behind += frames
        for window in self.windows:
            window.last_frame += frames


class Looked(Model):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.looks: list[int] = []
        LOOKED.append(self)

    def state(self) -> WorkerState:
        self.looks.append(self.draft_seq)
        return super().state()


LOOKED: list[Looked] = []
SCHEDULE = (Submit(0, prompt=3, limit=30), Step(), Step(accepts=(2,)))


def test_the_state_is_read_after_the_other_steps_and_at_the_end() -> None:
    """If this fails, a look repairs, or waits for, what the next step would have shown."""
    run = play(small(), *SCHEDULE, Step(unread=True), Step(), Step(unread=True))
    assert check(run, Looked).steps == 5
    assert LOOKED[-1].looks == [1, 2, 4, 5]


def test_a_state_that_is_only_right_when_looked_at_is_found() -> None:
    """If this fails, a worker may repair itself in `state()` and pass."""
    check(play(small(), *SCHEDULE, Step(), Step()), RepairsWhenAsked)
    with pytest.raises(Divergence) as caught:
        check(play(small(), *SCHEDULE, Step(unread=True), Step()), RepairsWhenAsked)
    assert caught.value.oracle == "comparison"


def test_lengths_of_every_field_are_compared() -> None:
    """If this fails, a worker shows rows that it should not have."""
    for name in ("ctx_len", "valid_len", "initialized", "windows", "confidence_stamp"):

        class Longer(Model):
            field = name

            def state(self) -> WorkerState:
                shown = plain(super().state())
                getattr(shown, self.field).extend([0, 0])
                return shown

        with pytest.raises(Divergence) as caught:
            check(play(small(), *SCHEDULE), Longer)
        assert caught.value.field == name
