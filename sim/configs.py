"""Configurations: what a schedule is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from draftproof.reference.vocabulary import Config
from draftproof.sim.artefacts import with_artefacts
from draftproof.sim.choices import Choices, Digits

Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True)
class Ranges:
    """What a configuration is chosen from. Small sizes meet their edges sooner; a few are large.

    sampled, guided: sizes of the vocabulary with rejection sampling, and with target logits;
    graphs: captured batch sizes, as far as there are so many requests.
    """

    block: Sequence[int] = range(1, 8)
    requests: Sequence[int] = (4, 1, 2, 3, 5, 4, 1, 2, 3, 17)
    window: Sequence[int] = (*range(1, 13), 17, 65)
    stages: Sequence[int] = (1, 2, 3, 1, 2, 3, 5)
    vocabulary: Sequence[int] = (64, 8, 64, 8, 64, 8, 70_000)
    sampled: Sequence[int] = (6,)
    guided: Sequence[int] = (6, 8)
    graphs: Sequence[tuple[int, ...]] = ((), (4,), (2, 4), (5, 16), (1, 2, 4, 5))
    about: Sequence[str] = (
        "forced", "schedule", "ragged", "sampled", "autonomous", "guided", "ragged",
    )  # fmt: skip


def choose_config(choices: Choices, ranges: Ranges = Ranges()) -> Config:
    """A configuration within these ranges, which are small by default."""
    digits = Digits(choices)
    k, requests = _one(ranges.block, digits), _one(ranges.requests, digits)
    config = Config(
        max_draft_len=k,
        window_size=_one(ranges.window, digits),
        num_stages=_one(ranges.stages, digits),
        max_num_requests=requests,
        vocab_size=_one(ranges.vocabulary, digits),
        max_num_tokens=requests * (1 + k) + (99, 0, 3, 399)[digits.below(4)],
        poison=digits.below(2) == 1,
    )
    about = _one(ranges.about, digits)
    graphs = tuple(size for size in _one(ranges.graphs, digits) if size <= requests)
    if about == "ragged":
        config = replace(config, graph_batch_sizes=graphs)
        config = _sampled(config, ranges, digits) if digits.below(2) else config
        return with_artefacts(config, digits)
    if about == "sampled":
        schedule = _schedule(config, digits) if digits.below(2) else None
        config = replace(config, draft_len_schedule=schedule, graph_batch_sizes=graphs)
        return _sampled(config, ranges, digits)
    if about == "guided":
        config = replace(config, target_logits=True, vocab_size=_one(ranges.guided, digits))
        about = ("forced", "schedule", "ragged")[digits.below(3)]
        if about == "ragged":
            return with_artefacts(replace(config, graph_batch_sizes=graphs), digits)
    if about == "autonomous":
        config = replace(config, target="autonomous", vocab_size=3)
    if about == "schedule" or (about == "autonomous" and digits.below(2)):
        config = replace(config, draft_len_schedule=_schedule(config, digits))
    return replace(config, graph_batch_sizes=graphs)


def _sampled(config: Config, ranges: Ranges, digits: Digits) -> Config:
    """The same with rejection sampling, over few tokens."""
    d2t: tuple[int, ...] | None = (None, None, (5, 2, 0, 3, 4), (4, 1))[digits.below(4)]
    drawn = digits.below(2) == 1
    few = _one(ranges.sampled, digits)
    config = replace(config, use_rejection_sampling=True, vocab_size=few)
    return replace(config, d2t=d2t, drawn_uniforms=drawn)


def _one(things: Sequence[Thing], digits: Digits) -> Thing:
    return things[digits.below(len(things))]


def _schedule(config: Config, digits: Digits) -> tuple[tuple[int, int], ...]:
    """Up to four thresholds, the first at K as section 10 demands; not always monotone."""
    k, threshold = config.max_draft_len, 1
    pairs = [(threshold, k)]
    for _ in range(1 + digits.below(3)):
        threshold += 1 + digits.below(2)
        pairs.append((threshold, (0, digits.below(k + 1))[digits.below(2)]))
    return tuple(pairs)
