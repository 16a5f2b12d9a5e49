"""The simulated target in numbers: a saved trace means what it meant when it was saved.

The numbers are what came out when the laws were written; any others would do as well.
"""

import pytest
from batches import small

from draftproof.reference.vocabulary import NO_PENALTIES, Penalties
from draftproof.sim.logits import PENALTIES, logits, packed
from draftproof.sim.target import answers, mix, seed, target_probs, uniform

HASHES = {
    (0, 0, 0): 0,
    (1, 0, 0): 1859,
    (0, 1, 0): 12864,
    (0, 0, 1): 48801,
    (3, 70_000, 2005): 61253,
    (2**31, 17, 77): 10952,
}


def test_the_hash_is_pinned() -> None:
    """If this fails, every saved trace has other tokens."""
    assert {numbers: mix(*numbers) for numbers in HASHES} == HASHES


@pytest.mark.parametrize(
    ("position", "greedy", "row"),
    [
        (1, True, [3, 13, -1, 0, 1, 2, -3]),
        (3, True, [-1, 5, -3, 1, 2, 3, 0]),
        (4, True, [2, 7, -1, -3, 3, 1, 0]),
        (1, False, [0, 13, -2, 2, 1, -1, 3]),
        (3, False, [-2, 5, 1, -3, 2, -1, 3]),
        (4, False, [-1, 7, 0, -3, -2, 1, 3]),
    ],
)
def test_logits_are_pinned(position: int, greedy: bool, row: list[float]) -> None:
    """If this fails, penalties and grammars lead to other tokens in saved traces."""
    assert logits(2, position, 1, greedy, 7) == row


def test_logit_rows_stand_one_behind_the_other() -> None:
    """If this fails, a row is made for another position or request than it stands at."""
    rows = packed([(2, 3, True), (2, 1, False)], [[1, 1], [1]], 7)
    expected = [logits(2, 3, 1, True, 7), logits(2, 4, 1, True, 7), logits(2, 1, 1, False, 7)]
    assert rows == [value for row in expected for value in row]


def test_penalties_are_pinned() -> None:
    """If this fails, requests of saved traces ask for something else."""
    assert (
        NO_PENALTIES,
        Penalties(2.0, 0, 0),
        Penalties(1.0, 3, 0),
        Penalties(1.0, 0, 1),
        Penalties(0.5, -1, 2),
    ) == PENALTIES
    assert Penalties(1.0, 0, 0) == NO_PENALTIES


@pytest.mark.parametrize(
    ("position", "masses"),
    [
        (0, {2: 637 / 1024, 6: 387 / 1024}),
        (1, {2: 0.625, 3: 0.375}),
        (5, {2: 509 / 1024, 5: 515 / 1024}),
        (6, {1: 0.125, 2: 0.875}),
        (7, {2: 1.0}),
        (10, {2: 0.5, 3: 0.25, 4: 0.125, 5: 0.125}),  # the drafter's own law
        (13, {2: 125 / 1024, 4: 899 / 1024}),
        (41, {2: 893 / 1024, 5: 131 / 1024}),
        (42, {2: 1.0}),
        (51, {2: 0.125, 3: 0.875}),
    ],
)
def test_target_probabilities_are_pinned(position: int, masses: dict[int, float]) -> None:
    """If this fails, drafts of saved traces are accepted that were rejected."""
    probs = target_probs(small(vocab_size=8), 3, position, 2, False)
    assert {token: mass for token, mass in enumerate(probs) if mass} == masses
    assert target_probs(small(vocab_size=4), 3, position, 2, True) == [0.0, 0.0, 1.0, 0.0]


def test_answers_are_pinned() -> None:
    """If this fails, the bonus of a step in a saved trace is another token."""
    assert answers(small(vocab_size=64), 3, 10, [1, 2, 3], 0, 3) == [45, 56, 55]
    few = [answers(small(vocab_size=3), 1, position, [0, 1, 2, 1], 0, 4) for position in range(4)]
    assert few == [[0, 1, 2, 2], [2, 0, 2, 2], [2, 0, 2, 1], [2, 0, 2, 1]]


def test_no_draft_is_kept_beyond_what_the_script_says() -> None:
    """If this fails, the last draft of a block is accepted by accident."""
    for position in range(40):
        script = answers(small(vocab_size=2), 1, position, [0, 1, 1, 0], 2, 4)
        assert script[:2] == [1, 1]
        assert script[2] == 1


def test_random_numbers_are_pinned() -> None:
    """If this fails, drafts of saved traces are accepted that were rejected."""
    assert [[uniform(1, p, purpose) for purpose in range(3)] for p in (3, 4)] == [
        [0.25, 0.5, 0.5],
        [774 / 1024, 0.375, 0.625],
    ]
    at_edges = {uniform(1, p, 0) for p in range(200) if mix(1, p, 100) & 3 == 2}
    assert at_edges == {n / 1024 for n in (387, 508, 515, 636, 774, 892, 899, 1016)}
    assert [seed(incarnation) for incarnation in range(3)] == [
        9280976550545629068,
        9289493367614354099,
        9267948437268071795,
    ]
