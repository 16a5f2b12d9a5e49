"""Sequential temperature scaling: making survivals mean what they say (semantics, section 14).

The expected calibration error (ECE) of predicted probabilities p against outcomes y in {0, 1}: sort
the predictions into BINS bins of equal width, p = 1 into the last one; in each bin take the
absolute difference between the sum of p and the sum of y; add these up and divide by the number of
predictions. That is the usual weighted mean of |confidence - accuracy|.

A fit is done once, on the host, far from any step, so nothing here is fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, isfinite, log

from draftproof.reference.confidence import sigmoid, single

BINS = 20

GRID = tuple(2 ** (i / 8) for i in range(-16, 25))
"""Temperatures that are tried: 1/4 .. 8, eight to the octave, 1 among them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One block that was verified.

    logits: [K], as drafted, before any temperature; verified: drafts in the window, 0 .. K;
    accepted: how many of them were kept.
    """

    logits: tuple[float, ...]
    verified: int
    accepted: int


def calibration_error(
    predictions: Sequence[float], outcomes: Sequence[bool], bins: int = BINS
) -> float:
    """The expected calibration error as defined above; without predictions 0."""
    gaps = [0.0] * bins
    for p, y in zip(predictions, outcomes, strict=True):
        gaps[min(int(p * bins), bins - 1)] += p - y
    return fsum(map(abs, gaps)) / max(1, len(predictions))


def fit(
    outcomes: Sequence[Outcome], block: int, grid: Sequence[float] = GRID, bins: int = BINS
) -> list[float]:
    """Temperatures T_1 .. T_K, each chosen with the earlier ones fixed.

    For position k only blocks count whose window reached it: of the others nobody knows how k
    would have ended. Rows with a non-finite logit say nothing. Equal errors: the temperature
    nearest to 1, on a scale of ratios, then the smaller; without any data 1.
    """
    known = [outcome for outcome in outcomes if all(map(isfinite, outcome.logits))]
    survivals = [1.0] * len(known)
    temperatures = []
    for k in range(block):
        chosen = _fit_position(known, survivals, k, grid, bins)
        survivals = _extended(known, survivals, k, chosen)
        temperatures.append(chosen)
    return temperatures


def _fit_position(
    known: Sequence[Outcome],
    survivals: Sequence[float],
    k: int,
    grid: Sequence[float],
    bins: int,
) -> float:
    pairs = [pair for pair in zip(known, survivals, strict=True) if pair[0].verified > k]
    if not pairs:
        return 1.0
    reached, before = zip(*pairs, strict=True)
    kept = [outcome.accepted > k for outcome in reached]

    def badness(temperature: float) -> tuple[float, float, float]:
        predictions = _extended(reached, before, k, temperature)
        error = calibration_error(predictions, kept, bins)
        return error, abs(log(temperature)), temperature

    return min(grid, key=badness)


def _extended(
    outcomes: Sequence[Outcome], survivals: Sequence[float], k: int, temperature: float
) -> list[float]:
    """Survivals up to position k, from those before it, rounded as in a step."""
    return [
        single(survival * single(sigmoid(outcome.logits[k] / temperature)))
        for outcome, survival in zip(outcomes, survivals, strict=True)
    ]
