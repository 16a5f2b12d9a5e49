"""How many drafts of each request the target verifies (semantics, section 14; arXiv 2607.05147).

A candidate is a pair (request, draft position). A length counts draft positions; a verify window
counts the anchor too. All candidates stand in one order: larger survival first, ties by (position,
then request). Survivals never grow along a row, so whatever is taken from the front of that order
is a prefix of every row. And who stands before (request, k) depends on no token from k on: so a
rule that takes candidates from the front, and decides on each by what it has taken, never looks
at a token that it could still reject. That makes it lossless (section 3.2.2 of the paper).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from draftproof.reference.confidence import LEAST_SURVIVAL, Rows
from draftproof.reference.vocabulary import Config

Rate = Callable[[int], float]
"""Steps per second at so many tokens in the target's step."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Fewest and most draft positions that a request verifies; the paper's fewest is 0."""

    fewest: int
    most: int


def limits_of(config: Config) -> Limits:
    """The limits that a checked configuration sets."""
    return Limits(config.min_verify_len, config.max_verify_len or config.max_draft_len)


def ranked(survivals: Rows, limits: Limits) -> list[tuple[int, int]]:
    """All candidates (request, position) between the limits, in their one order."""
    candidates = [
        (-survivals[request][position], position, request)
        for request in range(len(survivals))
        for position in range(limits.fewest, limits.most)
    ]
    return [(request, position) for _, position, request in sorted(candidates)]


def worthwhile(survivals: Rows, limits: Limits) -> list[tuple[int, int]]:
    """The candidates that may ever get budget, in order."""
    return [(g, k) for g, k in ranked(survivals, limits) if survivals[g][k] >= LEAST_SURVIVAL]


def allocate(survivals: Rows, budget: int, limits: Limits) -> list[int]:
    """Budgeted top-k: every request's fewest, and `budget` more for the best candidates.

    survivals: [requests][K]; budget >= 0. Returns a length per request.
    """
    lengths = [limits.fewest] * len(survivals)
    for request, _ in worthwhile(survivals, limits)[:budget]:
        lengths[request] += 1
    return lengths


def verify_windows(
    survivals: Rows | None, budget: int, limits: Limits, real: int
) -> list[int] | None:
    """The windows of a step's generations, before any padding to a bucket; None: uniform.

    survivals: [G][K], None if the snapshot they come from is not ready. Idle and padding rows,
    from `real` on, verify their anchor alone.
    """
    if survivals is None:
        return None
    lengths = allocate(survivals[:real], budget, limits)
    return [length + 1 for length in lengths] + [1] * (len(survivals) - real)


# ---- the hardware's side: how many tokens are worth their time -----------------------------------


def rate_of_table(table: Sequence[tuple[int, float]]) -> Rate:
    """SPS(t) from measurements (tokens, steps per second), ascending in tokens.

    A step is padded up to a size that was measured, so it runs at the rate of the next one;
    what is larger than all of them cannot run, and has rate 0.
    """

    def rate(tokens: int) -> float:
        return next((steps for size, steps in table if size >= tokens), 0.0)

    return rate


def rate_of_costs(costs: Sequence[tuple[int, float]]) -> Rate:
    """The same from a step-cost table, (tokens, seconds per step)."""
    return rate_of_table([(tokens, 1.0 / seconds) for tokens, seconds in costs])


def rate_of(config: Config) -> Rate | None:
    """SPS(t) as the configuration has it; None: this deployment was not profiled."""
    if config.step_costs is not None:
        return rate_of_costs(config.step_costs)
    return None if config.sps_table is None else rate_of_table(config.sps_table)


def admitted(gains: Sequence[float], tokens: int, expected: float, rate: Rate) -> int:
    """The loop of Algorithm 1: how many of these survivals, in their order, get a token each.

    It stops at the first that does not raise the expected tokens per second, so no later gain,
    of drafts not yet drawn, has a say in an earlier one. Sums are Python floats.
    """
    best = expected * rate(tokens)
    for count, gain in enumerate(gains):
        tokens, expected = tokens + 1, expected + gain
        if not (gain > 0 and expected * rate(tokens) > best):
            return count
        best = expected * rate(tokens)
    return len(gains)


def prefix_schedule(survivals: Rows, rate: Rate) -> list[int]:
    """Algorithm 1, the hardware-aware prefix scheduler with early stopping.

    survivals: [R][K] of the drafts that are about to be verified. Returns a length per request,
    which may be 0.
    """
    rows = len(survivals)
    order = ranked(survivals, Limits(0, _width(survivals)))
    gains = [survivals[request][position] for request, position in order]
    lengths = [0] * rows
    for request, _ in order[: admitted(gains, rows, float(rows), rate)]:
        lengths[request] += 1
    return lengths


def stopped_early(survivals: Rows, rate: Rate, limits: Limits) -> int:
    """How many candidates Algorithm 1 admits above the fewest of each request.

    survivals: [R][K] of requests. Those below LEAST_SURVIVAL count for nothing, so that sums of up
    to 1,024 tokens are exact, whoever adds them in whichever order (semantics, section 19).
    """
    granted = [gain for row in survivals for gain in row[: limits.fewest] if gain >= LEAST_SURVIVAL]
    gains = [survivals[request][position] for request, position in worthwhile(survivals, limits)]
    tokens = len(survivals) * (1 + limits.fewest)
    return admitted(gains, tokens, len(survivals) + sum(granted), rate)


def spendable(config: Config, survivals: Rows, budget: int) -> int:
    """A step's budget, or with `early_stopping` as much of it as pays; survivals: of requests."""
    rate = rate_of(config)
    if rate is None or not config.early_stopping:
        return budget
    return min(budget, stopped_early(survivals, rate, limits_of(config)))


def best_budget(survivals: Rows, rate: Rate, limits: Limits) -> int:
    """The budget with the largest expected number of tokens per second, the smallest such.

    survivals: [R][K] from a snapshot that is older than the drafts that will be verified. This is
    the unrestricted search: it looks past a fall of the rate for a later rise, so with current
    confidences it would not be lossless (Appendix A of the paper). With limits.fewest = 0 it is
    the paper's; otherwise every request's fewest positions are counted before the first choice.
    """
    fewest = limits.fewest
    granted = [row[k] for row in survivals for k in range(fewest)]
    candidates = [survivals[g][k] for g, k in worthwhile(survivals, limits)]
    *_, base = accumulate(granted, initial=float(len(survivals)))
    first = len(survivals) * (1 + fewest)
    values = [
        expected * rate(first + budget)
        for budget, expected in enumerate(accumulate(candidates, initial=base))
    ]
    return max(range(len(values)), key=lambda budget: (values[budget], -budget))


def _width(survivals: Rows) -> int:
    return max(map(len, survivals), default=0)
