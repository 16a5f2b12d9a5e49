"""The drivers, and how soon each finds what is wrong with a subject."""

from __future__ import annotations

from dataclasses import dataclass

from draftproof.fuzz.cases import Subject, seeded_case
from draftproof.sim.divergence import Divergence
from draftproof.sim.run import Run


@dataclass(frozen=True, slots=True)
class Found:
    """A failing case; case: its index; steps: forwards checked up to and including the failure."""

    divergence: Divergence
    run: Run
    case: int
    steps: int


def find_seeded(subject: Subject, seed: int, most_steps: int = 20_000) -> Found | None:
    """The first failing case of a seeded campaign of at most so many steps, or None."""
    steps = index = 0
    while steps < most_steps:
        run = seeded_case(seed, index, subject.make_engine)
        try:
            steps += subject.judge(run).steps
        except Divergence as divergence:
            return Found(divergence, run, index, steps + _steps(run, divergence))
        index += 1
    return None


def find_hypothesis(subject: Subject, seed: int, most_examples: int = 1_000) -> Found | None:
    """The first failing example that Hypothesis draws, unshrunk, or None."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    from draftproof.properties.strategies import runs

    found: list[Found] = []
    steps = examples = 0

    @seeded(seed)
    @settings(
        max_examples=most_examples,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(runs(make_engine=subject.make_engine))
    def example(run: Run) -> None:
        nonlocal steps, examples
        if found:
            return  # Hypothesis runs a failing example once more to report it
        try:
            steps += subject.judge(run).steps
        except Divergence as divergence:
            found.append(Found(divergence, run, examples, steps + _steps(run, divergence)))
            raise
        examples += 1

    try:
        example()
    except Exception:  # the Divergence, or Hypothesis's complaint that it came only once
        if not found:
            raise
    return found[0] if found else None


def _steps(run: Run, divergence: Divergence) -> int:
    """Steps of a failing run that count; one that fails after its last step counts whole."""
    return len(run.steps) if divergence.step is None else divergence.step + 1
