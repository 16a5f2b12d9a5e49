"""Section 10: configuration rules and the schedule; section 16, row 9: sizes to pad to."""

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import pytest
from batches import small
from hypothesis import given
from hypothesis import strategies as st

from draftproof.reference.config import checked, checked_schedule, lookup, padded_size
from draftproof.reference.vocabulary import Config, ConfigError

SIZES = ("max_draft_len", "window_size", "num_stages", "max_num_requests", "vocab_size")

REFUSED: list[tuple[dict[str, Any], str]] = [
    *(({name: 0}, f"{name} must be a whole number of at least 1") for name in SIZES),
    ({"window_size": 2.0}, "window_size must be a whole number of at least 1"),
    (
        {"vocab_size": 1},
        "vocab_size must be at least 2: with one token every draft is right",
    ),
    (
        {"block_size": 4},
        "block_size 4 differs from max_draft_len 3: "
        "DSpark drafts a whole block, so set both to the same number",
    ),
    (
        {"confidence_scheduling": True, "draft_len_schedule": ((4, 3),)},
        "confidence_scheduling chooses the verify windows itself: "
        "remove draft_len_schedule and max_concurrency, or switch it off",
    ),
    (
        {"confidence_scheduling": True, "max_concurrency": 4},
        "confidence_scheduling chooses the verify windows itself: "
        "remove draft_len_schedule and max_concurrency, or switch it off",
    ),
    (
        {"draft_len_schedule": ((4, 3),), "max_concurrency": 4},
        "draft_len_schedule and max_concurrency both set: keep one of them",
    ),
    (
        {"draft_len_schedule": ()},
        "draft_len_schedule is empty: give at least one threshold, or none at all",
    ),
    (
        {"draft_len_schedule": ((4, 3), (4, 2))},
        "draft_len_schedule has a threshold twice: keep one of each",
    ),
    (
        {"draft_len_schedule": ((0, 3),)},
        "draft_len_schedule threshold 0 must be at least 1",
    ),
    ({"max_concurrency": 0}, "max_concurrency 0 must be at least 1, or absent: no limit"),
    (
        {"confidence_scheduling": True, "max_concurrency": 0},
        "confidence_scheduling chooses the verify windows itself: "
        "remove draft_len_schedule and max_concurrency, or switch it off",
    ),
    (
        {"draft_len_schedule": ((1, 3), (2, 4))},
        "draft_len_schedule value 4 at threshold 2 must lie in 0..3, "
        "since max_draft_len is the largest block that can be drafted",
    ),
    (
        {"draft_len_schedule": ((1, 3), (2, -1))},
        "draft_len_schedule value -1 at threshold 2 must lie in 0..3, "
        "since max_draft_len is the largest block that can be drafted",
    ),
    (
        {"draft_len_schedule": ((4, 3), (2, 2))},
        "draft_len_schedule gives 2 at its smallest threshold 2, which must equal max_draft_len 3",
    ),
    ({"graph_batch_sizes": (3, 2)}, "graph_batch_sizes [3, 2] must be ascending and at least 1"),
    ({"graph_batch_sizes": (2, 2)}, "graph_batch_sizes [2, 2] must be ascending and at least 1"),
    ({"graph_batch_sizes": (0, 2)}, "graph_batch_sizes [0, 2] must be ascending and at least 1"),
    (
        {"graph_batch_sizes": (2, 4)},
        "graph_batch_sizes [2, 4] must not exceed max_num_requests 3: no batch has more rows",
    ),
    (
        {"max_num_tokens": 11},
        "max_num_tokens 11 must be at least 12, which is max_num_requests * (max_draft_len + 1)",
    ),
    ({"target": "oracle"}, "target 'oracle' must be 'scripted' or 'autonomous'"),
]


@pytest.mark.parametrize(("changes", "sentence"), REFUSED)
def test_a_broken_rule_is_named(changes: dict[str, Any], sentence: str) -> None:
    """If this fails, a configuration that cannot work is accepted, or refused without a reason."""
    with pytest.raises(ConfigError) as caught:
        checked(small(**changes))
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("changes", "schedule"),
    [
        ({}, None),
        ({"block_size": 3}, None),
        ({"confidence_scheduling": True}, None),
        ({"graph_batch_sizes": (1, 3), "max_num_tokens": 12}, None),
        ({"max_concurrency": 4}, ((4, 3),)),
        ({"max_concurrency": 1}, ((1, 3),)),
        ({"draft_len_schedule": ((8, 1), (1, 3), (4, 0))}, ((1, 3), (4, 0), (8, 1))),
    ],
)
def test_a_configuration_has_one_normal_form(changes: dict[str, Any], schedule: object) -> None:
    """If this fails, two workers given the same configuration may read it differently."""
    config = checked(small(**changes))
    assert config.draft_len_schedule == schedule
    assert config.block_size == config.max_draft_len == 3
    assert config.max_concurrency is None
    assert checked(config) == config


def test_a_mapping_is_a_schedule_too() -> None:
    """If this fails, the form that users write, {threshold: length}, is misread."""
    assert checked_schedule({8: 1, 1: 5, 4: 3}, 5) == ((1, 5), (4, 3), (8, 1))


# ---- lookup --------------------------------------------------------------------------------------


def scheduled(k: int, pairs: dict[int, int], **more: Any) -> Config:
    schedule = tuple(pairs.items())
    return checked(small(max_draft_len=k, draft_len_schedule=schedule, **more))


@pytest.mark.parametrize(
    ("pairs", "lengths"),
    [
        ({1: 5, 4: 3, 8: 1}, [5, 3, 3, 3, 1, 1, 1, 1, 0, 0]),
        ({3: 5}, [5, 5, 5, 0]),
        ({1: 5, 2: 0, 4: 5, 5: 2}, [5, 0, 5, 5, 2, 0]),
    ],
)
def test_the_first_threshold_that_fits_decides(pairs: dict[int, int], lengths: list[int]) -> None:
    """If this fails, a batch is drafted with another batch size's length; lengths may also grow."""
    config = scheduled(5, pairs)
    assert [lookup(config, size) for size in range(1, len(lengths) + 1)] == lengths


def test_without_a_schedule_the_whole_block_is_drafted() -> None:
    """If this fails, a worker without a schedule drafts less than it could."""
    assert {lookup(checked(small()), size) for size in (1, 2, 1000)} == {3}


def test_max_concurrency_is_one_threshold() -> None:
    """If this fails, drafting does not stop above max_concurrency."""
    config = checked(small(max_concurrency=4))
    assert [lookup(config, size) for size in (1, 4, 5)] == [3, 3, 0]


@given(
    later=st.dictionaries(st.integers(1, 20), st.integers(0, 4), max_size=6),
    size=st.integers(0, 25),
)
def test_lookup_is_the_value_of_the_smallest_key_that_is_large_enough(
    later: dict[int, int], size: int
) -> None:
    """If this fails, some schedule is looked up from the wrong side."""
    pairs = {**later, min(later, default=7): 4}
    fitting = [key for key in pairs if key >= size]
    assert lookup(scheduled(4, pairs), size) == (pairs[min(fitting)] if fitting else 0)


# ---- padding -------------------------------------------------------------------------------------


def all_schedules(largest_key: int, k: int) -> Iterator[dict[int, int]]:
    for length in range(1, largest_key + 1):
        for keys in combinations(range(1, largest_key + 1), length):
            for values in product(range(k + 1), repeat=length - 1):
                yield dict(zip(keys, (k, *values), strict=True))


def test_padding_finds_the_smallest_captured_graph_for_every_schedule() -> None:
    """If this fails, a batch replays a graph of another length, or runs eagerly for nothing.

    Section 11 re-stated as a set of captured pairs, for all small schedules and sizes: a search
    that assumes lengths to fall with the size is wrong for some of them (section 16, row 9).
    """
    all_sizes = [sizes for n in range(5) for sizes in combinations(range(1, 6), n)]
    for pairs, sizes in product(all_schedules(4, 2), all_sizes):
        config = scheduled(2, pairs, graph_batch_sizes=sizes, max_num_requests=5)
        captured = {(size, lookup(config, size)) for size in sizes}
        captured |= {(size, 2) for size in sizes[-1:]}
        for batch, r in product(range(1, 7), range(3)):
            fitting = [size for size, length in captured if length == r and size >= batch]
            assert padded_size(config, batch, r) == min(fitting, default=None), (config, batch, r)


@pytest.mark.parametrize(("batch", "size"), [(1, 2), (2, 2), (3, 4), (4, 4), (5, None)])
def test_without_a_schedule_every_captured_size_serves(batch: int, size: int | None) -> None:
    """If this fails, a batch is padded to a graph that is too small, or larger than needed."""
    config = checked(small(graph_batch_sizes=(2, 4), max_num_requests=4))
    assert padded_size(config, batch, 3) == size
