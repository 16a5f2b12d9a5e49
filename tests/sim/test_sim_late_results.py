"""What a failure says of where it comes from, and of results that are read late."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from batches import small
from schedules import play
from spoilers import plain

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Batch, StepResult, WorkerState
from draftproof.sim.choices import Seeded
from draftproof.sim.divergence import Divergence, raised_at
from draftproof.sim.events import AnyEvent, Step, Submit, Warmup
from draftproof.sim.lockstep import MakeWorker, check
from draftproof.sim.run import Run, simulate

START: tuple[AnyEvent, ...] = (Submit(0, prompt=3, limit=30), Step(), Step(accepts=(2,)))


def caught(make: MakeWorker, run: Run, timeout: float = 0.0) -> Divergence:
    with pytest.raises(Divergence) as info:
        check(run, make, timeout=timeout)
    return info.value


class OneBuffer(Model):
    """Hands out the same lists in every step."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.buffer: list[list[int]] = []

    def forward(self, batch: Batch) -> StepResult:
        self.buffer.clear()
        answer = super().forward(batch)
        self.buffer += answer.new_tokens
        return replace(answer, new_tokens=self.buffer)


@pytest.mark.parametrize("between", [(), (Warmup(),)])
def test_a_result_must_outlive_the_step_that_overlaps_it(between: tuple[AnyEvent, ...]) -> None:
    """If this fails, an engine that overlaps steps reads the tokens of another step."""
    divergence = caught(OneBuffer, play(small(), *START, *between, Step(accepts=(1,), late=True)))
    assert (divergence.field, divergence.step) == ("new_tokens", 2 + len(between))
    assert divergence.whose == "the result of step 1, which was right, until this step ran"


def test_a_result_that_was_handed_over_may_be_overwritten() -> None:
    """If this fails, every worker has to allocate, though nobody looks at its old results."""
    assert check(play(small(), *START, Step(accepts=(1,))), OneBuffer).steps == 3


def test_a_late_result_is_read_even_if_the_step_that_overlaps_it_fails() -> None:
    """If this fails, a step that fails may take the tokens of the one before it along."""
    run = play(small(), *START, Step(accepts=(1,), late=True, fault="publish"))
    assert caught(OneBuffer, run).field == "new_tokens"


class Deep(Model):
    def forward(self, batch: Batch) -> StepResult:
        self.deeper()
        return super().forward(batch)

    def deeper(self) -> None:
        raise IndexError("no such row")


class Spins(Model):
    def forward(self, batch: Batch) -> StepResult:
        while True:
            pass


def test_a_report_says_where_an_exception_was_raised_or_a_step_hung() -> None:
    """If this fails, whoever brings a worker learns what it raised, but not where."""
    run = play(small(), *START)
    (told,) = [line for line in caught(Deep, run).lines() if line.startswith("raised at")]
    name = __file__.rpartition("/")[2]
    assert told.split(", ")[0].startswith(f"raised at    {name}:")
    assert told.endswith(" in deeper")
    hung = caught(Spins, run, timeout=0.2)
    (told,) = [line for line in hung.lines() if line.startswith("raised at")]
    assert told.endswith(" in forward")
    assert raised_at(None) == ""


def test_a_file_that_is_called_like_one_of_ours_is_told(tmp_path: Path) -> None:
    """If this fails, a worker in a file `lockstep.py` of its own hears nothing of its own lines."""
    theirs = tmp_path / "lockstep.py"
    theirs.write_text("raise IndexError\n")
    with pytest.raises(IndexError) as info:
        run_path(str(theirs))
    assert raised_at(info.value).endswith(", lockstep.py:1 in <module>")


class Array:
    """Somebody's array, of which nothing is known but how to read it."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    def tolist(self) -> Any:
        return self.rows


class ShowsArrays(Model):
    def state(self) -> WorkerState:
        shown = plain(super().state())
        shown.windows = [[Array(stage) for stage in slot] for slot in shown.windows]
        return shown


def test_windows_may_be_lists_of_arrays() -> None:
    """If this fails, a worker in numpy is told that an array has no truth value."""
    assert check(play(small(), *START), ShowsArrays).steps == 2


def test_many_slots_are_used_to_the_last() -> None:
    """If this fails, whoever takes eight or sixteen rows at once is never given one more."""
    run = simulate(small(max_num_requests=17, max_num_tokens=200), Seeded(3), 100)
    rows = [len(expected.batch.generations) for expected in run.steps]
    assert max(rows) == 17
    assert sum(count > 8 for count in rows) > len(rows) / 4
