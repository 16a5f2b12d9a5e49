"""What confidence scheduling is configured with: limits, budgets and measured tables (section 14).

A table or a temperature is measured for one deployment. One that does not belong to this
configuration would not crash anything: it would only choose bad windows. So it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from math import isfinite

from draftproof.reference.vocabulary import Config, ConfigError

SETTINGS = (
    "min_verify_len",
    "max_verify_len",
    "verify_budget",
    "verify_buckets",
    "sts_temperatures",
    "sps_table",
    "step_costs",
    "early_stopping",
)
"""What means something only with confidence scheduling."""


def check_verification(config: Config) -> None:
    """Raise ConfigError for a setting of section 14 that cannot work."""
    if not config.confidence_scheduling:
        defaults = {field.name: field.default for field in fields(Config)}
        for name in SETTINGS:
            if getattr(config, name) != defaults[name]:
                raise ConfigError(
                    f"{name} is set, but confidence_scheduling is off: "
                    f"switch it on, or remove {name}"
                )
        return
    _check_whole_numbers(config)
    _check_limits(config)
    _check_buckets(config)
    if config.sts_temperatures is not None:
        _check_temperatures(config.sts_temperatures, config.max_draft_len)
    _check_sources(config)
    if config.sps_table is not None:
        _check_table(config, "sps_table", config.sps_table, "it counts steps per second")
    if config.step_costs is not None:
        _check_table(config, "step_costs", config.step_costs, "it is the seconds of a step")


def most_tokens(config: Config) -> int:
    """Token rows of the largest step without contexts: S * (K + 1)."""
    return config.max_num_requests * (config.max_draft_len + 1)


def _check_whole_numbers(config: Config) -> None:
    """Half a token is none, and a count that is no number would be above and below nothing."""
    named: list[tuple[str, object]] = [
        ("min_verify_len", config.min_verify_len),
        ("max_verify_len", config.max_verify_len),
        *(("verify_buckets entry", bucket) for bucket in config.verify_buckets),
        *(("sps_table token count", tokens) for tokens, _ in config.sps_table or ()),
        *(("step_costs token count", tokens) for tokens, _ in config.step_costs or ()),
    ]
    if config.verify_budget is not None:
        named.append(("verify_budget", config.verify_budget))
    for name, value in named:
        if not isinstance(value, int):
            raise ConfigError(f"{name} {value} must be a whole number")


def _check_limits(config: Config) -> None:
    k, least, most = config.max_draft_len, config.min_verify_len, config.max_verify_len
    if not 1 <= least <= k:
        raise ConfigError(
            f"min_verify_len {least} must lie in 1..{k}: "
            "every request verifies at least one draft, and none more than max_draft_len"
        )
    if most != 0 and not least <= most <= k:
        raise ConfigError(
            f"max_verify_len {most} must lie between min_verify_len {least} and "
            f"max_draft_len {k}, or be 0, which stands for max_draft_len"
        )
    if config.verify_budget is not None and config.verify_budget < 0:
        raise ConfigError(
            f"verify_budget {config.verify_budget} must be at least 0, or absent: not fixed"
        )


def _check_sources(config: Config) -> None:
    """What decides how many drafts are verified must be one thing."""
    for one, other, why in (
        ("verify_budget", "sps_table", "the table is there to choose the budget"),
        ("verify_budget", "step_costs", "the table is there to choose the budget"),
        ("sps_table", "step_costs", "one says the same as the other"),
    ):
        if getattr(config, one) is not None and getattr(config, other) is not None:
            raise ConfigError(f"{one} and {other} both set: keep one of them, since {why}")
    if config.early_stopping and config.sps_table is None and config.step_costs is None:
        raise ConfigError(
            "early_stopping is set, but there is no table to stop by: give sps_table or step_costs"
        )


def _check_buckets(config: Config) -> None:
    buckets, most = config.verify_buckets, most_tokens(config)
    if list(buckets) != sorted(set(buckets)) or any(bucket < 1 for bucket in buckets):
        raise ConfigError(f"verify_buckets {list(buckets)} must be ascending and at least 1")
    if buckets and buckets[-1] > most:
        raise ConfigError(
            f"verify_buckets {list(buckets)} must not exceed {most}, "
            "which is max_num_requests * (max_draft_len + 1)"
        )


def _check_temperatures(temperatures: Sequence[float], k: int) -> None:
    if len(temperatures) != k:
        raise ConfigError(
            f"sts_temperatures has {len(temperatures)} entries, but max_draft_len is {k}: "
            "give one temperature per draft position"
        )
    for value in temperatures:
        if not (isfinite(value) and value > 0):
            raise ConfigError(f"sts_temperatures entry {value} must be positive and finite")


def _check_table(config: Config, name: str, table: Sequence[tuple[int, float]], what: str) -> None:
    counts = [tokens for tokens, _ in table]
    if not counts:
        raise ConfigError(f"{name} is empty: give at least one measurement, or none at all")
    if counts != sorted(set(counts)):
        raise ConfigError(f"{name} token counts {counts} must be ascending")
    if counts[0] < 1:
        raise ConfigError(f"{name} token count {counts[0]} must be at least 1")
    for tokens, value in table:
        if not (isfinite(value) and value > 0):
            raise ConfigError(
                f"{name} entry {value} at {tokens} tokens must be positive and finite: {what}"
            )
    buckets, most = list(config.verify_buckets), most_tokens(config)
    if buckets and counts != buckets:
        raise ConfigError(
            f"{name} is for token counts {counts}, but verify_buckets has {buckets}: "
            "profile this deployment again"
        )
    if not buckets and counts[-1] != most:
        raise ConfigError(
            f"{name} ends at {counts[-1]} tokens, but the largest step has {most}, "
            "which is max_num_requests * (max_draft_len + 1): profile this deployment again"
        )
