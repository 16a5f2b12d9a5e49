"""What a deployment brings to confidence scheduling, made up small: limits, buckets, tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from draftproof.reference.vocabulary import Config
from draftproof.sim.choices import Digits

TEMPERATURES = (1.0, 0.5, 2.0, 4.0, 1.25)
RATES = (
    (0,),  # steps get no slower
    (0, 0, 10),  # jagged: whoever stops at the first fall misses what lies behind it
    (0, 40, -60),  # sizes that no kernel was tuned for, and larger ones that are faster
    (0, 0, 40, -60),
)
"""By how many parts in a hundred each larger size is slower than the one before, cyclically."""


def with_artefacts(config: Config, digits: Digits) -> Config:
    """The same with confidence scheduling, and now and then with limits and artefacts for it."""
    config = replace(config, confidence_scheduling=True)
    if digits.below(4) == 0:
        return config
    k = config.max_draft_len
    fewest = (1, 1, 1 + digits.below(k))[digits.below(3)]
    most = (0, 0, fewest + digits.below(k - fewest + 1))[digits.below(3)]
    config = replace(config, min_verify_len=fewest, max_verify_len=most)
    if digits.below(3):
        first = digits.below(len(TEMPERATURES))
        scales = [TEMPERATURES[(first + i) % len(TEMPERATURES)] for i in range(k)]
        config = replace(config, sts_temperatures=tuple(scales))
    if digits.below(3):
        sizes = config.graph_batch_sizes or (config.max_num_requests,)
        config = replace(config, graph_batch_sizes=sizes)
        config = replace(config, verify_buckets=_buckets(config))
    source = digits.below(6)
    if source == 0:
        return config
    if source == 1:
        return replace(config, verify_budget=digits.below(2 * k + 1))
    config = replace(config, early_stopping=source > 3)
    table = _table(config, RATES[digits.below(len(RATES))])
    if source % 2:
        return replace(config, step_costs=tuple((tokens, 1 / rate) for tokens, rate in table))
    return replace(config, sps_table=table)


def _buckets(config: Config) -> tuple[int, ...]:
    """Token counts that captured sizes can be padded to, from the least to the most.

    A window apart, so that now and then some slack is left for a part of the rows.
    """
    widest = 1 + (config.max_verify_len or config.max_draft_len)
    counts = {size * widest for size in config.graph_batch_sizes}
    for size in config.graph_batch_sizes:
        counts |= {*range(size, size * widest, widest)}
    return tuple(sorted(counts))


def _table(config: Config, slower: Sequence[int]) -> tuple[tuple[int, float], ...]:
    """Steps per second at the buckets, else at every few tokens up to those of the largest step."""
    most = config.max_num_requests * (config.max_draft_len + 1)
    counts = config.verify_buckets or (*range(1, most, 2), most)
    falls = [slower[i % len(slower)] / 100 for i in range(len(counts))]
    rates = accumulate(falls, lambda rate, fall: rate * (1 - fall), initial=1000.0)
    return tuple(zip(counts, rates, strict=False))
