"""What a worker's attention is set up for while it drafts: seen, and told if it is wrong."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from batches import small
from schedules import play

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Collaborators, Config
from draftproof.sim.divergence import Divergence
from draftproof.sim.drafting import ATTENTION
from draftproof.sim.events import AnyEvent, Step, Submit, Warmup
from draftproof.sim.lockstep import MakeWorker, check
from draftproof.sim.run import Run

TWO: tuple[AnyEvent, ...] = (*[Submit(i, prompt=2, limit=30) for i in (0, 1)], Step())


def run_of(*events: AnyEvent, **settings: Any) -> Run:
    return play(small(num_stages=2, **settings), *TWO, *events)


class Watched(Model):
    """Notes what it is asked, and what it answers."""

    def __init__(self, config: Config, lent: Collaborators) -> None:
        super().__init__(config, lent)
        self.answers: list[list[int]] = []
        asked.append(self.answers)

    def attention_now(self) -> list[int]:
        self.answers.append(super().attention_now())
        return self.answers[-1]


asked: list[list[list[int]]] = []


def test_it_is_asked_before_each_stage_and_before_drafts_are_drawn() -> None:
    """If this fails, what is set up for the drafter is looked at too early, or not in warm-ups."""
    asked.clear()
    prompt = Submit(2, prompt=3, limit=30)
    run = run_of(Step(), prompt, Step(), Step(draft_len=0), Warmup(rows=1, context=True))
    assert check(run, Watched).not_checked == set()
    # Three looks each: at two generations, beside a prompt, none at r = 0, and in the warm-up.
    assert asked == [[*[[3, 3]] * 3, *[[0, 3, 3]] * 3, *[[0, 3]] * 3]]


class OfTheTarget(Model):
    """Drafts as if for the target."""

    def attention_now(self) -> list[int]:
        return [1 + self.config.max_draft_len] * len(super().attention_now())


class AtTheSecondStage(Model):
    """What the first stage leaves is wrong."""

    looks = 0

    def attention_now(self) -> list[int]:
        self.looks += 1
        return [*super().attention_now(), *[0] * (self.looks == 2)]


def swallowing(config: Config, lent: Collaborators) -> Model:
    """Hears of nothing but injected faults at its seams."""

    def at(seam: str) -> None:
        with suppress(Divergence):
            lent.at(seam)

    return OfTheTarget(config, replace(lent, at=at))


@pytest.mark.parametrize("make", [OfTheTarget, AtTheSecondStage, swallowing])
@pytest.mark.parametrize("event", [Step(), Warmup(draft_len=2), Step(fault="drafted")])
def test_a_worker_that_drafts_over_another_layout_is_found(
    make: MakeWorker, event: AnyEvent
) -> None:
    """If this fails, the drafter reads lengths that are the target's, and no state shows it."""
    with pytest.raises(Divergence) as info:
        check(run_of(event), make)
    assert (info.value.signature, info.value.step) == (("comparison", ATTENTION), 1)


class Silent(Model):
    """Shows nothing while it drafts."""

    attention_now = None  # type: ignore[assignment]  # as if it were not there


def seamless(config: Config, lent: Collaborators) -> Model:
    """Calls the four seams that it has to, and no other."""

    def at(seam: str) -> None:
        if seam in ("accept", "seed", "draft", "publish"):
            lent.at(seam)

    return Model(config, Collaborators(at, lent.drafter))


@pytest.mark.parametrize("make", [Silent, seamless])
def test_one_that_cannot_be_asked_is_told_as_not_checked(make: MakeWorker) -> None:
    """If this fails, a report says that something was looked at which nobody could see."""
    assert check(run_of(Step()), make).not_checked == {ATTENTION}
    assert check(run_of(Step(draft_len=0)), make).not_checked == set()
