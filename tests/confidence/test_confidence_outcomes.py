"""From a run to temperatures: what was drafted, what became of it, and how sure it should be."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from pathlib import Path
from random import Random

import pytest
from planned.by_hand import START, scheduled
from schedules import play

import draftproof.sim.outcomes as reader
from draftproof.reference.calibration import Outcome, fit
from draftproof.reference.vocabulary import Config
from draftproof.sim.events import AnyEvent, Step, Submit, Warmup
from draftproof.sim.outcomes import outcomes
from draftproof.sim.run import Expected, Run, Simulation, replay
from draftproof.sim.traces import Trace, load, save

TRUTH = (2.0, 1.0, 4.0)
BLOCKS = 1_500
"""Of each of three requests; some two thousand then say something about the third position."""


def simulated() -> Run:
    """Each draft of a block is kept with probability sigmoid(logit / TRUTH), as a target would."""
    random = Random(1)
    simulation = Simulation(Config(3, 4, 1, 3, confidence_scheduling=True))
    for ordinal in range(3):
        simulation.apply(Submit(ordinal, prompt=3 + ordinal, limit=1 << 20, imported=True))
    last = simulation.apply(Step())
    for _ in range(BLOCKS):
        assert last is not None
        last = simulation.apply(Step(accepts=drawn(random, last)))
    return simulation.finish()


def drawn(random: Random, last: Expected) -> tuple[int, ...]:
    """How many drafts of each request the target keeps."""
    slots, kept = last.state.slots or {}, []
    for row in last.batch.generations:
        sure = chances(last.state.confidence_logits[slots[row.request_id]])
        kept.append(next((k for k, p in enumerate(sure) if random.random() >= p), len(sure)))
    return tuple(kept)


def chances(logits: Sequence[float]) -> list[float]:
    """Of each draft, once those before it are kept."""
    return [1 / (1 + exp(-x / t)) for x, t in zip(logits, TRUTH, strict=True)]


def close(temperatures: list[float]) -> bool:
    """Within three steps of the grid, eight to the octave."""
    pairs = zip(temperatures, TRUTH, strict=True)
    return all(true * 2 ** (-3 / 8) <= found <= true * 2 ** (3 / 8) for found, true in pairs)


def test_a_saved_run_gives_the_temperatures_that_it_was_made_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, nobody can fit temperatures from what was recorded of a deployment.

    Planted: outcomes are told of the block that a step drafts, not of the one that it verifies.
    """
    run = simulated()
    save(Trace(run.config, tuple(run.events)), tmp_path / "run.jsonl")
    trace = load(tmp_path / "run.jsonl")
    again = replay(trace.config, trace.alone)
    found = outcomes(again)
    assert len(found) == 3 * BLOCKS
    assert close(fit(found, 3))

    verified = reader._verified
    monkeypatch.setattr(reader, "_verified", lambda step, _: verified(step, reader._drafted(step)))
    assert not close(fit(outcomes(again), 3))


def logits_of(run: Run, step: int, incarnation: int) -> tuple[float, ...]:
    """What a request's block was drafted with in a step."""
    state = run.steps[step].state
    request = next(r.request_id for r in run.steps[step].batch.rows if r.incarnation == incarnation)
    return tuple(state.confidence_logits[(state.slots or {})[request]])


def test_a_block_is_told_by_its_own_logits_window_and_acceptance() -> None:
    """If this fails, drafts that nobody verified are called rejected, or another block's."""
    step: AnyEvent = Step(windows=(4, 1, 2), accepts=(2, 0, 3))
    run = play(scheduled(), *START, Warmup(rows=2), step)
    block = [logits_of(run, 2, own) for own in (1, 2, 3)]
    assert outcomes(run)[-2:] == [Outcome(block[0], 3, 2), Outcome(block[2], 1, 1)]


@pytest.mark.parametrize(
    "event", [Step(draft_len=0), Step(fault="draft"), Step(fault="result")], ids=repr
)
def test_what_was_not_drafted_or_not_answered_says_nothing(event: Step) -> None:
    """If this fails, placeholders and failures are taken for rejections."""
    before = len(outcomes(play(scheduled(), *START)))
    run = play(scheduled(), *START, event, Step(accepts=(5,)))
    told = 3 if event.fault == "result" else 0  # that one was answered; only the host never heard
    assert len(outcomes(run)) == before + told
