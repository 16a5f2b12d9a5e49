"""Configuration rules and the draft-length schedule (semantics, section 10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from draftproof.reference.artefacts import check_verification
from draftproof.reference.vocabulary import Config, ConfigError

Schedule = tuple[tuple[int, int], ...]


def checked(config: Config) -> Config:
    """Return the configuration in its one normal form: schedule sorted, block size filled in.

    Raises ConfigError with one sentence that says what is wrong and what to do.
    """
    _check_sizes(config)
    k = config.max_draft_len
    if config.block_size not in (None, k):
        raise ConfigError(
            f"block_size {config.block_size} differs from max_draft_len {k}: "
            "DSpark drafts a whole block, so set both to the same number"
        )
    schedule, concurrency = config.draft_len_schedule, config.max_concurrency
    if config.confidence_scheduling and (schedule, concurrency) != (None, None):
        raise ConfigError(
            "confidence_scheduling chooses the verify windows itself: "
            "remove draft_len_schedule and max_concurrency, or switch it off"
        )
    check_verification(config)
    _check_sampling(config)
    if schedule is not None and concurrency is not None:
        raise ConfigError("draft_len_schedule and max_concurrency both set: keep one of them")
    if concurrency is not None and concurrency < 1:
        raise ConfigError(f"max_concurrency {concurrency} must be at least 1, or absent: no limit")
    if concurrency is not None:
        schedule = ((concurrency, k),)
    if schedule is not None:
        schedule = checked_schedule(schedule, k)
    return replace(config, block_size=k, draft_len_schedule=schedule, max_concurrency=None)


def _check_sizes(config: Config) -> None:
    for name in ("max_draft_len", "window_size", "num_stages", "max_num_requests", "vocab_size"):
        if not isinstance(getattr(config, name), int) or getattr(config, name) < 1:
            raise ConfigError(f"{name} must be a whole number of at least 1")
        if getattr(config, name) > 2**20:
            raise ConfigError(f"{name} must not exceed 2^20, or no run would end")
    if config.num_stages > 128:
        raise ConfigError("num_stages must not exceed 128: a hidden row has one component for it")
    if config.vocab_size < 2:
        raise ConfigError("vocab_size must be at least 2: with one token every draft is right")
    sizes = config.graph_batch_sizes
    if list(sizes) != sorted(set(sizes)) or any(size < 1 for size in sizes):
        raise ConfigError(f"graph_batch_sizes {list(sizes)} must be ascending and at least 1")
    if sizes and sizes[-1] > config.max_num_requests:
        raise ConfigError(
            f"graph_batch_sizes {list(sizes)} must not exceed max_num_requests "
            f"{config.max_num_requests}: no batch has more rows"
        )
    least = config.max_num_requests * (config.max_draft_len + 1)
    if config.max_num_tokens < least:
        raise ConfigError(
            f"max_num_tokens {config.max_num_tokens} must be at least {least}, "
            "which is max_num_requests * (max_draft_len + 1)"
        )
    if config.target not in ("scripted", "autonomous"):
        raise ConfigError(f"target {config.target!r} must be 'scripted' or 'autonomous'")


def _check_sampling(config: Config) -> None:
    for name in ("d2t", "drawn_uniforms"):
        if getattr(config, name) and not config.use_rejection_sampling:
            raise ConfigError(
                f"{name} is set, but use_rejection_sampling is off: switch it on, or remove {name}"
            )
    if config.target_logits and config.use_rejection_sampling:
        raise ConfigError(
            "target_logits chooses tokens by argmax, under the strict rule: "
            "switch use_rejection_sampling off, or remove target_logits"
        )
    if config.target_logits and config.target != "scripted":
        raise ConfigError(
            "target_logits needs the scripted target, whose logits are built around the drafts: "
            "set target to 'scripted', or remove target_logits"
        )
    if config.target_logits and config.vocab_size < 6:
        raise ConfigError(
            f"vocab_size {config.vocab_size} must be at least 6 with target_logits: "
            "grammars are made of five letters and an end token"
        )
    d2t, v = config.d2t, config.vocab_size
    if d2t is not None and not (d2t and len(set(d2t)) == len(d2t)):
        raise ConfigError(f"d2t {list(d2t)} must name at least one token, and none twice")
    if d2t is not None and not 0 <= min(d2t) <= max(d2t) < v:
        raise ConfigError(f"d2t {list(d2t)} must name tokens in 0..{v - 1}")


def checked_schedule(schedule: Mapping[int, int] | Iterable[tuple[int, int]], k: int) -> Schedule:
    """Return the schedule sorted by batch-size threshold. Raises ConfigError."""
    entries = list(schedule.items() if isinstance(schedule, Mapping) else schedule)
    pairs = tuple(sorted((key, value) for key, value in entries))
    if not pairs:
        raise ConfigError(
            "draft_len_schedule is empty: give at least one threshold, or none at all"
        )
    if len({key for key, _ in pairs}) != len(pairs):
        raise ConfigError("draft_len_schedule has a threshold twice: keep one of each")
    for key, value in pairs:
        if key < 1:
            raise ConfigError(f"draft_len_schedule threshold {key} must be at least 1")
        if not 0 <= value <= k:
            raise ConfigError(
                f"draft_len_schedule value {value} at threshold {key} must lie in 0..{k}, "
                "since max_draft_len is the largest block that can be drafted"
            )
    if pairs[0][1] != k:
        raise ConfigError(
            f"draft_len_schedule gives {pairs[0][1]} at its smallest threshold {pairs[0][0]}, "
            f"which must equal max_draft_len {k}"
        )
    return pairs


def lookup(config: Config, batch_size: int) -> int:
    """Draft length r for a batch: contexts + generations, idle dummy included, before padding."""
    if config.draft_len_schedule is None:
        return config.max_draft_len
    return next((r for size, r in config.draft_len_schedule if size >= batch_size), 0)


def padded_size(config: Config, batch_size: int, draft_len: int) -> int | None:
    """Smallest captured size that a generation-only batch is padded to, or None: run eagerly.

    Exact for every schedule (section 16, row 9): graphs exist for the schedule over the captured
    sizes, plus (largest size, K); without a schedule every captured size serves every r.
    """
    sizes = config.graph_batch_sizes
    for size in sizes:
        if size >= batch_size and _captured(config, size, draft_len):
            return size
    return None


def _captured(config: Config, size: int, draft_len: int) -> bool:
    if config.draft_len_schedule is None:
        return True
    is_largest_full = size == config.graph_batch_sizes[-1] and draft_len == config.max_draft_len
    return is_largest_full or lookup(config, size) == draft_len
