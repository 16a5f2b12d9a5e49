"""Drivers of decisions."""

from itertools import product
from math import prod

import pytest

from draftproof.sim.choices import Digits, Seeded
from draftproof.sim.configs import choose_config
from draftproof.sim.events import AnyEvent, choose_event


class Given:
    """Always the same number; remembers what it was asked for."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked: list[int] = []

    def below(self, n: int) -> int:
        self.asked.append(n)
        return self.number


def test_seeded_choices_are_the_same_in_every_run() -> None:
    """If this fails, a seed no longer names a schedule; the numbers are those of Python's own."""
    first, again = Seeded(7), Seeded(7)
    drawn = [first.below(1000) for _ in range(5)]
    assert drawn == [again.below(1000) for _ in range(5)] == [323, 150, 650, 72, 535]
    assert drawn != [Seeded(8).below(1000) for _ in range(5)]


def test_seeded_choices_reach_every_index_about_equally() -> None:
    """If this fails, some choices of a schedule are never or too seldom made."""
    choices = Seeded(0)
    counts = [0] * 7
    for _ in range(7000):
        counts[choices.below(7)] += 1
    assert all(900 < count < 1100 for count in counts)


@pytest.mark.parametrize("bounds", [(2,), (2, 3, 5), (4, 1, 3), (7, 2)])
def test_digits_give_each_combination_once(bounds: tuple[int, ...]) -> None:
    """If this fails, digits depend on each other: some combination of choices is never made."""
    found = []
    for number in range(prod(bounds)):
        digits = Digits(Given(number))
        found.append(tuple(digits.below(n) for n in bounds))
    assert sorted(found) == sorted(product(*map(range, bounds)))
    assert found[0] == (0,) * len(bounds)


def test_digits_cost_one_draw_and_the_first_ones_are_the_lowest() -> None:
    """If this fails, an event costs Hypothesis several draws, or small numbers are not simple."""
    choices = Given(1 + 10 * 2)
    digits = Digits(choices)
    assert (digits.below(10), digits.below(10), digits.below(10)) == (1, 2, 0)
    assert choices.asked == [2**53]


class Counted(Digits):
    """Digits that know how many combinations were asked for."""

    combinations = 1

    def below(self, n: int) -> int:
        self.combinations *= n
        return super().below(n)


def test_no_event_and_no_configuration_runs_out_of_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the last digits of a long event are not uniform, or always 0."""
    used: list[Counted] = []

    def counted(choices: Given) -> Counted:
        used.append(Counted(choices))
        return used[-1]

    monkeypatch.setattr("draftproof.sim.events.Digits", counted)
    choices, kinds = Seeded(3), set[type[AnyEvent]]()
    for _ in range(300):
        config = choose_config(choices)
        kinds.update(type(choose_event(config, choices, [0, 1, 2, 3, 4], 5)) for _ in range(10))
    assert {kind.__name__ for kind in kinds} == {
        "Submit", "Step", "Cancel", "Pause", "Recompute", "Warmup"
    }  # fmt: skip
    assert max(digits.combinations for digits in used) < Digits.SPACE / 8
