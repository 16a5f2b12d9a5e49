"""Section 14's part of the configuration: what is refused, and with which sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from draftproof.reference.config import checked
from draftproof.reference.vocabulary import Config, ConfigError

TABLE = ((4, 2.0), (16, 0.5))


def config(**settings: Any) -> Config:
    """K = 3 and S = 4, so at most 16 tokens in a step."""
    return Config(3, 8, 1, 4, **{"confidence_scheduling": True, **settings})


REFUSED: list[tuple[dict[str, Any], str]] = [
    *(
        (
            {"confidence_scheduling": False, name: value},
            f"{name} is set, but confidence_scheduling is off: switch it on, or remove {name}",
        )
        for name, value in (
            ("min_verify_len", 2),
            ("max_verify_len", 2),
            ("verify_budget", 0),
            ("verify_buckets", (4,)),
            ("sts_temperatures", (1.0, 1.0, 1.0)),
            ("sps_table", TABLE),
            ("step_costs", TABLE),
            ("early_stopping", True),
        )
    ),
    (
        {"min_verify_len": 0},
        "min_verify_len 0 must lie in 1..3: "
        "every request verifies at least one draft, and none more than max_draft_len",
    ),
    (
        {"min_verify_len": 4},
        "min_verify_len 4 must lie in 1..3: "
        "every request verifies at least one draft, and none more than max_draft_len",
    ),
    (
        {"min_verify_len": 2, "max_verify_len": 1},
        "max_verify_len 1 must lie between min_verify_len 2 and max_draft_len 3, "
        "or be 0, which stands for max_draft_len",
    ),
    (
        {"max_verify_len": 4},
        "max_verify_len 4 must lie between min_verify_len 1 and max_draft_len 3, "
        "or be 0, which stands for max_draft_len",
    ),
    ({"verify_budget": -1}, "verify_budget -1 must be at least 0, or absent: not fixed"),
    (
        {"verify_budget": 3, "sps_table": TABLE},
        "verify_budget and sps_table both set: keep one of them, "
        "since the table is there to choose the budget",
    ),
    (
        {"verify_budget": 3, "step_costs": TABLE},
        "verify_budget and step_costs both set: keep one of them, "
        "since the table is there to choose the budget",
    ),
    (
        {"sps_table": TABLE, "step_costs": TABLE},
        "sps_table and step_costs both set: keep one of them, since one says the same as the other",
    ),
    (
        {"early_stopping": True, "verify_budget": 3},
        "early_stopping is set, but there is no table to stop by: give sps_table or step_costs",
    ),
    ({"verify_buckets": (8, 4)}, "verify_buckets [8, 4] must be ascending and at least 1"),
    ({"verify_buckets": (4, 4)}, "verify_buckets [4, 4] must be ascending and at least 1"),
    ({"verify_buckets": (0, 4)}, "verify_buckets [0, 4] must be ascending and at least 1"),
    (
        {"verify_buckets": (4, 17)},
        "verify_buckets [4, 17] must not exceed 16, "
        "which is max_num_requests * (max_draft_len + 1)",
    ),
    (
        {"sts_temperatures": (1.0, 2.0)},
        "sts_temperatures has 2 entries, but max_draft_len is 3: "
        "give one temperature per draft position",
    ),
    *(
        (
            {"sts_temperatures": (1.0, 2.0, value)},
            f"sts_temperatures entry {value} must be positive and finite",
        )
        for value in (0.0, -1.0, float("nan"), float("inf"))
    ),
    ({"sps_table": ()}, "sps_table is empty: give at least one measurement, or none at all"),
    ({"sps_table": TABLE[::-1]}, "sps_table token counts [16, 4] must be ascending"),
    ({"sps_table": TABLE + TABLE[1:]}, "sps_table token counts [4, 16, 16] must be ascending"),
    ({"sps_table": ((0, 2.0), (16, 1.0))}, "sps_table token count 0 must be at least 1"),
    *(
        (
            {"sps_table": ((4, 2.0), (16, value))},
            f"sps_table entry {value} at 16 tokens must be positive and finite: "
            "it counts steps per second",
        )
        for value in (0.0, -0.5, float("nan"), float("inf"))
    ),
    *(
        (
            {"sps_table": ((4, 2.0), (last, 1.0))},
            f"sps_table ends at {last} tokens, but the largest step has 16, "
            "which is max_num_requests * (max_draft_len + 1): profile this deployment again",
        )
        for last in (12, 32)
    ),
    *(
        (
            {"step_costs": ((4, 0.5), (16, value))},
            f"step_costs entry {value} at 16 tokens must be positive and finite: "
            "it is the seconds of a step",
        )
        for value in (0.0, -0.5, float("nan"), float("inf"))
    ),
    ({"step_costs": TABLE[::-1]}, "step_costs token counts [16, 4] must be ascending"),
    (
        {"sps_table": TABLE, "verify_buckets": (4, 8)},
        "sps_table is for token counts [4, 16], but verify_buckets has [4, 8]: "
        "profile this deployment again",
    ),
]


@pytest.mark.parametrize(("settings", "sentence"), REFUSED)
def test_a_broken_rule_is_named(settings: dict[str, Any], sentence: str) -> None:
    """If this fails, an artefact of another deployment silently chooses bad windows."""
    with pytest.raises(ConfigError) as caught:
        checked(config(**settings))
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"confidence_scheduling": False},
        {"min_verify_len": 3, "max_verify_len": 3},
        {"verify_budget": 0, "verify_buckets": (4, 16)},
        {"sts_temperatures": (0.5, 1.0, 4.0), "sps_table": TABLE},
        {"sps_table": ((4, 0.5), (8, 2.0)), "verify_buckets": (4, 8)},  # jagged is allowed
        {"step_costs": ((4, 0.5), (16, 2.0)), "early_stopping": True},
    ],
)
def test_what_works_is_left_alone(settings: dict[str, Any]) -> None:
    """If this fails, a sound configuration is refused or changed."""
    accepted = checked(config(**settings))
    for name, value in settings.items():
        assert getattr(accepted, name) == value


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("min_verify_len", 1.5, "min_verify_len 1.5"),
        ("max_verify_len", 2.5, "max_verify_len 2.5"),
        ("verify_budget", float("nan"), "verify_budget nan"),
        ("verify_budget", 1.5, "verify_budget 1.5"),
        ("verify_buckets", (4.5,), "verify_buckets entry 4.5"),
        ("sps_table", ((1.5, 9.0),), "sps_table token count 1.5"),
        ("step_costs", ((1.5, 9.0),), "step_costs token count 1.5"),
    ],
)
def test_counts_are_whole_numbers(name: str, value: Any, told: str) -> None:
    """If this fails, a slip of the pen plans windows by half a token."""
    settings: dict[str, Any] = {name: value}
    config = replace(Config(3, 8, 2, 4, confidence_scheduling=True), **settings)
    with pytest.raises(ConfigError, match=f"^{told} must be a whole number$"):
        checked(config)
