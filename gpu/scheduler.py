"""How much of each block is verified (section 14; arXiv 2607.05147, Algorithm 1 and section 5.2).

Two time scales. *Who* gets the budget is decided here on the device, from the confidences of the
very drafts that are verified, without a look at the values: `allocate`. *How much* there is to
give is decided on the host, because it selects the captured graph: `best_budget`, from a snapshot
that is older than those drafts, or `prefix_schedule`. These two are tensors in, tensors out as
well, but they add in float64 one after the other, which only a CPU promises to do.

Candidates are laid out position by position, so that a stable sort leaves ties in the order
(position, then request).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from draftproof.gpu.constants import ramp
from draftproof.reference.vocabulary import Config

LEAST_SURVIVAL = 1e-6
"""Compared as a float32, like the survivals."""


class Limits(NamedTuple):
    """Draft positions per request: the first `fewest` for nothing, never more than `most`."""

    fewest: int
    most: int


class Table(NamedTuple):
    """SPS(t) as measured. tokens: int64 [N], ascending; rates: float64 [N], steps per second."""

    tokens: Tensor
    rates: Tensor


def limits_of(config: Config) -> Limits:
    """What the configuration sets; a max_verify_len of 0 stands for K."""
    return Limits(config.min_verify_len, config.max_verify_len or config.max_draft_len)


def allocate(survivals: Tensor, budget: Tensor | int, limits: Limits, real: Tensor | int) -> Tensor:
    """Lengths in draft positions, int64 [G]; 0 for rows from `real` on.

    survivals: float32 [G, K]; budget, real: int64 [] or numbers. The `budget` largest survivals
    above the fewest get one position each; those below `LEAST_SURVIVAL` never do.
    """
    between = survivals[:, limits.fewest : limits.most]
    granted = _granted(between, between >= LEAST_SURVIVAL, budget)
    is_real = ramp(survivals.shape[0], survivals.device) < real
    return torch.where(is_real, granted + limits.fewest, 0)


def verify_windows(
    survivals: Tensor, budget: Tensor | int, limits: Limits, real: Tensor | int
) -> Tensor:
    """Windows, anchor included, int64 [G]: 1 for idle and padding rows. As in `allocate`."""
    return allocate(survivals, budget, limits, real) + 1


def _granted(scores: Tensor, eligible: Tensor, budget: Tensor | int) -> Tensor:
    """How many entries of each row are among the `budget` best eligible ones, int64 [G].

    scores: float32 [G, P], not negative and never rising along a row; eligible: bool [G, P].
    """
    rows, positions = scores.shape
    order = _order(scores, eligible)
    rank = torch.empty_like(order)
    rank[order] = ramp(rows * positions, scores.device)
    chosen = (rank < budget) & eligible.t().flatten()
    return chosen.view(positions, rows).sum(0)


def _order(scores: Tensor, eligible: Tensor) -> Tensor:
    """Positions-first indices of all entries, best first, the others last; int64 [G * P]."""
    flat = torch.where(eligible, scores, -1).t().flatten()
    return torch.sort(flat, descending=True, stable=True).indices


def stopped_early(values: Tensor) -> Tensor:
    """How many drafts Algorithm 1 lets in, int64 []; values: as `paid` says.

    Until it stops, each value is the best so far, so it stops where one does not exceed the last.
    """
    return (values[1:] > values[:-1]).cumprod(0).sum()


def paid(survivals: Tensor, table: Table, limits: Limits, real: Tensor | int) -> Tensor:
    """Expected tokens per second with 0, 1, ... drafts above the fewest, float64 [N + 1].

    survivals: float32 [G, K], 0 for rows from `real` on; the table is on their device. Those below
    LEAST_SURVIVAL count as 0, and behind them the value is -1. So all others are multiples of
    2^-43, and float64 adds up to 1,024 without rounding: a parallel sum is the same as any other.
    """
    counted = torch.where(survivals >= LEAST_SURVIVAL, survivals, 0)
    between = counted[:, limits.fewest : limits.most]
    gains = between.t().flatten()[_order(between, between > 0)].double()
    start = counted[:, : limits.fewest].double().sum() + real
    expected = start + pad(gains.cumsum(0), (1, 0))
    tokens = real * (1 + limits.fewest) + ramp(len(expected), survivals.device)
    return torch.where(pad(gains, (1, 0), value=1.0) > 0, expected * rate_at(table, tokens), -1)


# ---- on the host ---------------------------------------------------------------------------------


def configured_table(config: Config) -> Table | None:
    """The one table that a configuration may have, on the CPU."""
    if config.step_costs is not None:
        return table_of_costs(config.step_costs)
    return None if config.sps_table is None else table_of(config.sps_table)


def table_of(pairs: Sequence[tuple[int, float]]) -> Table:
    """A table of `Config.sps_table`, on the CPU."""
    tokens, rates = zip(*pairs, strict=True)
    return Table(torch.tensor(tokens), torch.tensor(rates, dtype=torch.float64))


def table_of_costs(pairs: Sequence[tuple[int, float]]) -> Table:
    """The same from a step-cost table, (tokens, seconds per step)."""
    return table_of([(tokens, 1.0 / seconds) for tokens, seconds in pairs])


def rate_at(table: Table, tokens: Tensor) -> Tensor:
    """Steps per second, float64 of the shape of tokens (int64).

    A step is padded up to a measured size, so the next one counts; beyond the last nothing runs.
    """
    index = torch.searchsorted(table.tokens, tokens)
    return torch.cat([table.rates, table.rates.new_zeros(1)])[index]


def prefix_schedule(survivals: Tensor, table: Table) -> Tensor:
    """Algorithm 1 with early stopping: lengths int64 [R]; survivals: float32 [R, K], on the CPU."""
    positive = survivals > 0
    values = _values(survivals, positive, Limits(0, survivals.shape[1]), table)
    return _granted(survivals, positive, stopped_early(values))


def best_budget(survivals: Tensor, table: Table, limits: Limits) -> int:
    """The unrestricted search: the smallest budget of the highest value.

    survivals: float32 [R, K], on the CPU, of an older snapshot: with current confidences this
    would not be lossless (Appendix A of the paper).
    """
    eligible = survivals[:, limits.fewest : limits.most] >= LEAST_SURVIVAL
    values = _values(survivals, eligible, limits, table)
    return int(values.argmax())


def _values(survivals: Tensor, eligible: Tensor, limits: Limits, table: Table) -> Tensor:
    """Expected tokens per second with 0, 1, ... candidates above the fewest, float64 [N + 1].

    eligible: bool [R, most - fewest]; what is not eligible gets the value -1.
    """
    rows, (fewest, most) = survivals.shape[0], limits
    between = survivals[:, fewest:most]
    order = _order(between, eligible)
    gains = between.t().flatten()[order].double()
    granted = survivals[:, :fewest].flatten().double()
    base = torch.full((1,), rows, dtype=torch.float64)
    expected = torch.cat([base, granted, gains]).cumsum(0)[len(granted) :]
    tokens = rows * (1 + fewest) + ramp(len(expected), survivals.device)
    possible = torch.cat([torch.ones(1, dtype=torch.bool), eligible.t().flatten()[order]])
    return torch.where(possible, expected * rate_at(table, tokens), -1)
