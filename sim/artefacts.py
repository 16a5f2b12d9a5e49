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
    (1,),
    (0, 0, 0, 5),  # jagged: a search that stops at the first fall misses what lies behind it
    (3, 0, 1, 0, 0),
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
        config = replace(config, verify_buckets=_buckets(config))
    source = digits.below(3)
    if source == 1:
        return replace(config, verify_budget=digits.below(2 * k + 1))
    if source == 2:
        return replace(config, sps_table=_table(config, RATES[digits.below(len(RATES))]))
    return config


def _buckets(config: Config) -> tuple[int, ...]:
    """Token counts that captured sizes can be padded to: the least, the fewest and the most."""
    widest = 1 + (config.max_verify_len or config.max_draft_len)
    each = (1, 1 + config.min_verify_len, widest)
    counts = {size * width for size in config.graph_batch_sizes for width in each}
    return tuple(sorted(counts))


def _table(config: Config, slower: Sequence[int]) -> tuple[tuple[int, float], ...]:
    """Steps per second at the buckets, else at every few tokens up to those of the largest step."""
    most = config.max_num_requests * (config.max_draft_len + 1)
    counts = config.verify_buckets or (*range(1, most, 2), most)
    falls = [slower[i % len(slower)] / 100 for i in range(len(counts))]
    rates = accumulate(falls, lambda rate, fall: rate * (1 - fall), initial=1000.0)
    return tuple(zip(counts, rates, strict=False))
