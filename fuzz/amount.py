"""How much `draftproof check` checks, on one rank or several, and when that is a verdict."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from draftproof.sim.errors import NoVerdict

DEFAULT_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is to be checked; None: no such bound; least: steps that make a verdict."""

    cases: int | None
    steps: int | None
    minutes: float | None
    least: int

    def over(self, cases: int, steps: int, seconds: float) -> bool:
        """Whether to stop, after so much. Raises NoVerdict if time is up, and that is too little.

        Cases and steps that were asked for are the least; if only time was, `least` steps are.
        """
        if any(
            bound is not None and done >= bound
            for bound, done in ((self.cases, cases), (self.steps, steps))
        ):
            return True
        if self.minutes is None or seconds < 60 * self.minutes:
            return False
        if self.cases is None and self.steps is None and steps >= self.least:
            return True
        raise NoVerdict(
            f"no verdict: time ran out after {steps:,} steps in {cases:,} cases; "
            "give more --minutes"
        )


def amount_of(arguments: argparse.Namespace) -> Amount:
    """What the options ask for; without any, `DEFAULT_STEPS` steps."""
    bounds = arguments.examples, arguments.steps, arguments.minutes
    if bounds == (None, None, None):
        bounds = None, DEFAULT_STEPS, None
    return Amount(*bounds, arguments.least)
