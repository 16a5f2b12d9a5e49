"""How much each part measures: enough for steady figures, or just enough to see that it works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """repetitions: of everything that is compared, of which the median counts.

    request_steps: per shape of the lockstep; seeded_events, machine_cases: generation alone, where
    the state machine is so much slower; checked_cases: for steps per second; defects: how many of
    the planted ones, None for all; seeds: per defect; cap: seconds until a search is given up;
    warm_steps, steps: before memory is first looked at, and from there on; published: whether
    kernels work at published sizes; turn: seconds in which they are called again and again.
    """

    repetitions: int
    request_steps: int
    seeded_events: int
    machine_cases: int
    checked_cases: int
    defects: int | None
    seeds: int
    cap: float
    warm_steps: int
    steps: int
    published: bool
    turn: float


FULL = Sizes(
    repetitions=7,
    request_steps=8_000,
    seeded_events=40_000,
    machine_cases=200,
    checked_cases=200,
    defects=None,
    seeds=7,
    cap=60.0,
    warm_steps=10_000,
    steps=100_000,
    published=True,
    turn=0.3,
)

QUICK = Sizes(
    repetitions=1,
    request_steps=400,
    seeded_events=400,
    machine_cases=6,
    checked_cases=8,
    defects=1,
    seeds=1,
    cap=1.0,
    warm_steps=100,
    steps=400,
    published=False,
    turn=0.0,
)
