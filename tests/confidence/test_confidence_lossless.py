"""Appendix A of the paper, executable: whoever looks at tokens not yet drawn changes the output.

Laws are exact, in fractions, by enumeration of all drafts and all outcomes; one test measures
instead, as a harness would that has nothing but samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import erfc, sqrt
from random import Random
from typing import TypeVar

import pytest
from confidence.cases import broken, nearest
from confidence.laws import Planner, Schedule, Tokens, World, one_step, plain, several_steps
from confidence.sides import REFERENCE, TORCH, Side, Table, both
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.acceptance import rejection
from draftproof.reference.ragged import fill_bucket

T = TypeVar("T")

NAN = float("nan")
CAPACITY: Table = [(1, 1.0), (2, 0.5), (3, 0.45)]

COIN = World(
    block=2,
    target=lambda prefix: Fraction(3, 10),
    draft=lambda prefix: Fraction(1, 2),
    confidence=lambda prefix: [0.8, 0.0 if prefix and prefix[-1] else 0.9][len(prefix) % 2],
)
"""The paper's counter-example: target (0.7, 0.3), drafter (0.5, 0.5), c_1 = 0.8, and c_2 is 0.9
after token 0 and 0 after token 1. In several steps parity stands for the position."""


def survivals(side: Side, confidences: list[list[float]]) -> list[list[float]]:
    rounded = [[nearest(c) for c in row] for row in confidences]
    return side.survival(rounded, len(rounded))


def early(side: Side, table: Table) -> Schedule:
    """Algorithm 1."""
    return lambda confidences: side.prefix_schedule(survivals(side, confidences), table)


def ahead(side: Side, table: Table) -> Schedule:
    """The unrestricted search on the confidences of the very drafts that are scheduled."""

    def schedule(confidences: list[list[float]]) -> list[int]:
        current = survivals(side, confidences)
        return spend(side, current, side.best_budget(current, table, (0, len(current[0]))))

    return schedule


def spend(side: Side, current: list[list[float]], budget: int, fewest: int = 0) -> list[int]:
    windows = side.windows(current, budget, (fewest, len(current[0])), len(current))
    return [window - 1 for window in windows]


# ---- the counter-example -------------------------------------------------------------------------


def first_token(worlds: Sequence[World], schedule: Schedule) -> Fraction:
    """Probability that the first request's first token is 0."""
    law = one_step(worlds, schedule)
    return sum((mass for runs, mass in law.items() if runs[0][0] == 0), Fraction(0))


@both
def test_looking_ahead_shifts_the_law_as_the_paper_says(side: Side) -> None:
    """If this fails, the counter-example of Appendix A no longer shows what it is there for.

    Token 0 makes a long window worth while and is then kept; token 1 makes no window worth while
    and is replaced by a fresh draw: 0.5 + 0.5 * 0.7.
    """
    assert first_token([COIN], ahead(side, CAPACITY)) == Fraction(85, 100)


@both
def test_stopping_early_keeps_the_law(side: Side) -> None:
    """If this fails, Algorithm 1 is not lossless where it matters most."""
    assert first_token([COIN], early(side, CAPACITY)) == Fraction(7, 10)


@both
@pytest.mark.parametrize("old", [[0.8, 0.9], [0.8, 0.0], [1.0, 1.0]])
def test_the_same_search_on_old_confidences_keeps_the_law(side: Side, old: list[float]) -> None:
    """If this fails, the budget of an older snapshot does not make the search lossless."""
    budget = side.best_budget(survivals(side, [old]), CAPACITY, (0, 2))
    found = first_token([COIN], lambda now: spend(side, survivals(side, now), budget))
    assert found == Fraction(7, 10)


def planners(side: Side) -> dict[str, Planner]:
    """How much of the newest block is verified, from all confidences so far."""

    def stop(history: list[list[float]]) -> int:
        return side.prefix_schedule(survivals(side, history[-1:]), CAPACITY)[0]

    def look(history: list[list[float]]) -> int:
        return side.best_budget(survivals(side, history[-1:]), CAPACITY, (0, 2))

    def remember(history: list[list[float]], back: int) -> int:
        old = history[-1 - back] if len(history) > back else [1.0, 1.0]
        budget = side.best_budget(survivals(side, [old]), CAPACITY, (0, 2))
        return spend(side, survivals(side, history[-1:]), budget)[0]

    return {
        "early": stop,
        "one step old": lambda history: remember(history, 1),
        "two steps old": lambda history: remember(history, 2),
        "ahead": look,
    }


@pytest.mark.parametrize(
    ("name", "keeps"),
    [("early", True), ("one step old", True), ("two steps old", True), ("ahead", False)],
)
def test_over_several_steps(name: str, keeps: bool) -> None:
    """If this fails, an old snapshot leaks through the tokens that have been kept since.

    Four tokens: at least two steps, at most four, so that the oldest plan of the fourth step
    comes from the block of the second.
    """
    found = several_steps(COIN, planners(REFERENCE)[name], 4)
    expected = {
        tokens: mass
        for (tokens,), mass in plain([World(3, COIN.target, COIN.draft, COIN.confidence)]).items()
    }
    assert sum(found.values()) == 1
    assert (found == expected) is keeps


# ---- for all worlds ------------------------------------------------------------------------------


def hashed(values: Sequence[T], salt: int) -> Callable[[Tokens], T]:
    """A function of a prefix, made of a few values."""
    return lambda prefix: values[(sum(3**i * (t + 1) for i, t in enumerate(prefix)) + salt) % 7]


def sevens(values: st.SearchStrategy[T]) -> st.SearchStrategy[list[T]]:
    return st.lists(values, min_size=7, max_size=7)


@st.composite
def worlds(draw: st.DrawFn) -> list[World]:
    """One request or two, with laws and confidences that depend on the whole prefix."""
    law = sevens(st.integers(1, 7).map(lambda n: Fraction(n, 8)))
    trust = sevens(st.sampled_from([0.8, 1.0, 0.5, 0.25, 1e-7, 0.0]))
    return [
        World(2, hashed(draw(law), salt), hashed(draw(law), salt), hashed(draw(trust), salt))
        for salt in range(draw(st.integers(1, 2)))
    ]


rates = st.sampled_from([0.25, 0.45, 0.5, 0.8, 1.0, 2.0])
valleys = st.lists(rates, min_size=6, max_size=6).map(lambda found: list(enumerate(found, 1)))
"""Measurements at 1 .. 6 tokens, with falls and rises where two requests of two drafts work."""


def padded(lengths: Sequence[int], buckets: Sequence[int], block: int) -> list[int]:
    """The lengths after the step is padded to the first bucket that holds it."""
    windows = [length + 1 for length in lengths]
    bucket = next(
        size for size in sorted({*buckets, len(lengths) * (block + 1)}) if size >= sum(windows)
    )
    return [window - 1 for window in fill_bucket(windows, 0, bucket, block + 1)]


captured = st.lists(st.integers(2, 6), max_size=3)

Case = tuple[list[World], Table, list[int]]
cases = st.tuples(worlds(), valleys, captured)


def lossless(side: Side, scheduler: Callable[[Side, Table], Schedule], case: Case) -> None:
    """The joint law of all requests is the target's: no output tells about another one's."""
    made, table, buckets = case
    schedule = scheduler(side, table)
    assert one_step(made, lambda now: padded(schedule(now), buckets, 2)) == plain(made)


@both
@settings(max_examples=60)
@given(case=cases)
def test_early_stopping_is_lossless_in_every_world(side: Side, case: Case) -> None:
    """If this fails, Algorithm 1, its ties or the padding see a token that may be rejected."""
    lossless(side, early, case)


@both
@settings(max_examples=60)
@given(case=cases, fewest=st.integers(0, 2), budget=st.integers(0, 4))
def test_a_planned_step_that_stops_early_is_lossless_in_every_world(
    side: Side, case: Case, fewest: int, budget: int
) -> None:
    """If this fails, what is verified anyway, or the budget, lets a later token speak."""

    def stopping(side: Side, table: Table) -> Schedule:
        def schedule(confidences: list[list[float]]) -> list[int]:
            current = survivals(side, confidences)
            paying = side.stopped_early(current, len(current), table, (fewest, 2))
            return spend(side, current, min(budget, paying), fewest)

        return schedule

    lossless(side, stopping, case)


def test_looking_ahead_is_found_in_some_world() -> None:
    """If this fails, the worlds above are too tame to show a leak, and prove nothing."""
    assert broken(lambda side, case: lossless(side, ahead, case), REFERENCE, cases)


def by_the_last_confidence(side: Side, table: Table) -> Schedule:
    """Requests whose last draft looks good are verified whole, the others but for that one."""
    del table

    def schedule(confidences: list[list[float]]) -> list[int]:
        return [2 if row[-1] >= 0.5 else 1 for row in survivals(side, confidences)]

    return schedule


def test_a_schedule_that_only_looks_back_is_not_accused() -> None:
    """If this fails, the enumeration calls lossy whatever depends on confidences at all.

    Position 1 is verified anyway, and position 2 by a confidence that depends on draft 1 alone.
    """
    for made in ([COIN], [COIN, COIN]):
        lossless(REFERENCE, by_the_last_confidence, (made, [(1, 1.0)], []))


@both
@settings(max_examples=60)
@given(made=worlds(), budget=st.integers(0, 4), fewest=st.integers(0, 2), buckets=captured)
def test_a_budget_known_beforehand_is_lossless_in_every_world(
    side: Side, made: list[World], budget: int, fewest: int, buckets: list[int]
) -> None:
    """If this fails, ranking by current confidences leaks what was drawn."""

    def schedule(now: list[list[float]]) -> list[int]:
        return padded(spend(side, survivals(side, now), budget, fewest), buckets, 2)

    assert one_step(made, schedule) == plain(made)


# ---- measured ------------------------------------------------------------------------------------

FAMILY = 1e-6
RUNS = 20_000


def sampled_first_token(schedule: Schedule, seed: int) -> int:
    """How often the first token is 0, over RUNS steps of the counter-example, as a worker runs."""
    random, q, p = Random(seed), [0.7, 0.3], [0.5, 0.5]

    def uniform() -> float:
        return 1.0 - random.random()

    zeros = 0
    for _ in range(RUNS):
        drafts = (int(uniform() > 0.5), int(uniform() > 0.5))
        (length,) = schedule([COIN.confidences((), drafts)])
        new = rejection(
            drafts[:length],
            [p] * length,
            [q] * (length + 1),
            [uniform() for _ in range(length)],
            uniform(),
        )
        zeros += new[0] == 0
    return zeros


def p_value(zeros: int, probability: float) -> float:
    """Pearson's chi-square with one degree of freedom."""
    statistic = (zeros - RUNS * probability) ** 2 / (RUNS * probability * (1 - probability))
    return erfc(sqrt(statistic / 2))


def test_a_harness_with_samples_finds_the_first_and_passes_the_others() -> None:
    """If this fails, a test of the output's law would not notice a scheduler that looks ahead."""
    old = REFERENCE.best_budget(survivals(REFERENCE, [[0.8, 0.9]]), CAPACITY, (0, 2))
    schedules: list[Schedule] = [
        early(REFERENCE, CAPACITY),
        lambda now: spend(REFERENCE, survivals(REFERENCE, now), old),
        ahead(REFERENCE, CAPACITY),
    ]
    values = [p_value(sampled_first_token(s, seed), 0.7) for seed, s in enumerate(schedules)]
    assert [value < FAMILY / len(values) for value in values] == [False, False, True]


# ---- a gap in the text ---------------------------------------------------------------------------


def test_a_row_that_is_neutral_as_a_whole_can_leak() -> None:
    """If this fails, section 14's rule about non-finite logits has become lossless: say so there.

    A logit that is not finite at position 2 only after token 1 makes position 1 certain too, and
    so admits the token that caused it. With finite logits, and for faults that do not depend on
    a drawn token, nothing leaks. Kept as the text has it: a NaN is a fault, not a step.
    """
    table: Table = [(1, 1.0), (2, 0.6), (3, 0.1)]

    def schedule(confidences: list[list[float]]) -> list[int]:
        drafted = confidences[0]
        logits = [[-0.5, NAN if drafted[1] == 0 else 1.0], [0.0, 0.0], [30.0, 30.0]]
        (row,) = TORCH.source_rows(logits, [3, 0, 0], [0], 3)
        believed = TORCH.calibrated([logits[row]], None)
        return TORCH.prefix_schedule(TORCH.survival(believed, 1), table)

    assert first_token([COIN], schedule) == Fraction(55, 100)
