"""Whatever a schedule does: engine, model and worker agree, and every invariant holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from examples import share
from hypothesis import given

from draftproof.fuzz.defects.catalogue import ENGINE_DEFECTS
from draftproof.properties.invariants import Invariants
from draftproof.properties.strategies import runs
from draftproof.reference.vocabulary import UNDONE, Config
from draftproof.sim.choices import Choices, Seeded
from draftproof.sim.configs import choose_config
from draftproof.sim.engine import Engine
from draftproof.sim.events import Submit
from draftproof.sim.journal import Delivered, Departed, Submitted
from draftproof.sim.loading import load
from draftproof.sim.lockstep import check
from draftproof.sim.run import MakeEngine, Run, simulate
from draftproof.sim.target import plain_decode, prompt_token

TORCH = load("draftproof.gpu.worker:make")

pytestmark = pytest.mark.timeout(900)  # the profile `nightly` draws twenty times as many


@share(8)
@given(run=runs())
def test_the_invariants_hold(run: Run) -> None:
    """If this fails, engine or model break a rule of section 17, or a rule is too strict."""
    checked = check(run, None, [Invariants(run.config)])
    assert checked.steps == len(run.steps)


@share(4)
@given(run=runs())
def test_the_worker_agrees_with_the_model(run: Run) -> None:
    """If this fails, the worker does not do what the specification says."""
    checked = check(run, TORCH, [Invariants(run.config)])
    assert checked.steps == len(run.steps)
    assert (checked.not_checked, checked.faults_without_seam) == (set(), 0)


# Autonomous output, from the journal alone


def autonomous(choices: Choices) -> Config:
    """Any configuration, with the target that follows a law; ragged ones too."""
    config = replace(choose_config(choices), use_rejection_sampling=False, target_logits=False)
    config = replace(config, d2t=None, drawn_uniforms=False)
    return replace(config, target="autonomous", vocab_size=3)


def check_outputs(run: Run) -> int:
    """Whole outputs against decoding token by token; returns how many requests finished."""
    asked: dict[int, Submit] = {}
    output: dict[int, list[int]] = {}
    finished = set()
    for entry in run.journal.entries:
        if isinstance(entry, Submitted):
            asked[entry.incarnation], output[entry.incarnation] = entry.event, []
        elif isinstance(entry, Delivered):
            output[entry.incarnation] += entry.tokens
        elif isinstance(entry, Departed) and entry.reason == "finished":
            finished.add(entry.incarnation)
    v = run.config.vocab_size
    for incarnation, event in asked.items():
        last = event.prompt - 1
        token = prompt_token(incarnation, last, v)
        plain = plain_decode(incarnation, last, token, v, event.limit)
        if event.stop in plain:
            plain = plain[: plain.index(event.stop) + 1]
        got = output[incarnation]
        assert got == plain[: len(got)]
        assert (incarnation in finished) == (len(got) == len(plain))
    return len(finished)


@share(5)
@given(run=runs(make_config=autonomous))
def test_autonomous_output_is_plain_decode(run: Run) -> None:
    """If this fails, speculation changes what a user reads."""
    check_outputs(run)


def autonomous_runs(make_engine: MakeEngine = Engine) -> list[Run]:
    """The same ones each time."""
    drivers = [Seeded(seed) for seed in range(120)]
    return [simulate(autonomous(driver), driver, 40, make_engine) for driver in drivers]


@pytest.mark.parametrize("name", ["stop-ignored", "late-result-misdelivered"])
def test_a_wrong_output_is_seen(name: str) -> None:
    """If this fails, the test above would pass whatever is emitted."""
    with pytest.raises(AssertionError):
        sum(map(check_outputs, autonomous_runs(ENGINE_DEFECTS[name])))


def test_schedules_reach_the_ends_of_outputs() -> None:
    """If this fails, whole outputs are compared, but hardly any request lives to have one."""
    finished = dropped = runs_of_drafts = 0
    for run in autonomous_runs():
        finished += check_outputs(run)
        answers = {
            step.batch.step: dict(
                zip(
                    [row.incarnation for row in step.batch.rows],
                    step.result.new_tokens_lens,
                    strict=True,
                )
            )
            for step in run.steps
            if step.result is not None and step.batch.mode not in UNDONE
        }
        for entry in run.journal.entries:
            if isinstance(entry, Delivered):
                runs_of_drafts += len(entry.tokens) > 2
                dropped += len(entry.tokens) < answers[entry.step][entry.incarnation]
    assert (finished > 100, dropped > 20, runs_of_drafts > 50) == (True, True, True)
