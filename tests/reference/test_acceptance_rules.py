"""Section 6: what the target keeps of a block, and the exact law of rejection sampling."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftproof.reference.acceptance import one_hot, recover, rejection, sample, strict

# ---- strict --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("drafts", "target", "new"),
    [
        ([4, 5, 6], [4, 5, 6, 7], [4, 5, 6, 7]),
        ([4, 5, 6], [4, 5, 9, 7], [4, 5, 9]),
        ([4, 5, 6], [9, 5, 6, 7], [9]),
        ([4, 5, 6], [9, 4, 5, 6], [9]),
        ([], [8], [8]),
        ([0, 0], [0, 0, 0], [0, 0, 0]),
    ],
)
def test_the_longest_matching_prefix_is_kept(
    drafts: list[int], target: list[int], new: list[int]
) -> None:
    """If this fails, a draft after the first mismatch is kept, or a match is lost."""
    assert strict(drafts, target) == new


def test_a_verify_window_ends_the_match() -> None:
    """If this fails, drafts beyond a request's window count as matches. [T] of section 6."""
    assert strict([1, 9, 9], [1, 100]) == [1, 100]
    assert strict([2, 3, 4], [2, 8, 4, 101]) == [2, 8]
    assert strict([2, 8, 4], [2, 8, 4, 101]) == [2, 8, 4, 101]
    assert strict([1, 1, 1], [1]) == [1]


@given(st.integers(0, 5).flatmap(lambda r: st.tuples(*[st.integers(0, 1)] * (2 * r + 1))))
def test_strict_is_the_first_difference(tokens: tuple[int, ...]) -> None:
    """If this fails, acceptance is not "up to the first difference" for some block."""
    r = len(tokens) // 2
    drafts, target = list(tokens[:r]), list(tokens[r:])
    differing = [i for i in range(r) if drafts[i] != target[i]]
    end = min(differing, default=r)
    assert strict(drafts, target) == target[: end + 1]


# ---- rejection: edges ----------------------------------------------------------------------------

HALF = [0.5, 0.5]


def one_draft(
    token: int, p: Sequence[float], q: Sequence[float], u: float, recover_u: float = 0.5
) -> list[int]:
    """One tested draft; if it is accepted, the bonus is token 0."""
    return rejection([token], [p], [q, one_hot(0, len(q))], [u], recover_u)


def test_equality_rejects() -> None:
    """If this fails, u * p = q accepts: with u in (0, 1] the law would be off at every tie."""
    p, q = [1.0, 0.0], [0.25, 0.75]
    assert one_draft(0, p, q, 0.25) == [1]
    assert one_draft(0, p, q, 0.25 - 2**-12) == [0, 0]


def test_a_planted_token_that_nobody_could_draw_is_rejected() -> None:
    """If this fails, p = q = 0 accepts: 0 < 0 must be false."""
    assert one_draft(2, [0.5, 0.5, 0.0], [0.25, 0.75, 0.0], 2**-12) == [1]


def test_without_residual_mass_the_last_possible_token_is_taken() -> None:
    """If this fails, p = q everywhere at a rejection crashes, or emits a token with q = 0."""
    assert one_draft(2, [0.5, 0.5, 0.0], [0.5, 0.5, 0.0], 1.0) == [1]
    assert recover([0.5, 0.25, 0.25, 0.0], [0.5, 0.5, 0.5, 0.5], 0.1) == 2


def test_the_residual_is_clipped_not_signed() -> None:
    """If this fails, negative differences lower the running sum, and the law is bent."""
    q, p = [0.5, 0.125, 0.375], [0.25, 0.625, 0.125]
    assert [recover(q, p, u) for u in (0.25, 0.49, 0.5, 0.75, 1.0)] == [0, 0, 2, 2, 2]


def test_the_running_sum_must_exceed_the_bound() -> None:
    """If this fails, a uniform exactly on a border falls to the wrong side."""
    weights = [0.25, 0.0, 0.5, 0.25, 0.0]
    draws = {u: sample(weights, u) for u in (2**-12, 0.25, 0.5, 0.75, 0.75 + 2**-12)}
    assert list(draws.values()) == [0, 2, 2, 3, 3]


def test_a_uniform_of_one_takes_the_last_token_with_mass() -> None:
    """If this fails, u = 1, where no running sum exceeds the total, has a wrong answer or none."""
    assert sample([0.5, 0.25, 0.25, 0.0], 1.0) == 2
    assert recover([0.75, 0.25, 0.0], [0.25, 0.25, 0.5], 1.0) == 0


def test_weights_need_not_sum_to_one() -> None:
    """If this fails, an unnormalised residual is drawn from as if it were normalised."""
    assert [sample([0.125, 0.125], u) for u in (0.25, 0.49, 0.5, 0.9)] == [0, 0, 1, 1]


def test_all_accepted_draws_the_bonus_from_the_last_row() -> None:
    """If this fails, the bonus comes from a row that a draft was tested against."""
    q = [one_hot(1, 3), one_hot(2, 3), [0.0, 0.5, 0.5]]
    p = [one_hot(1, 3), one_hot(2, 3)]
    assert rejection([1, 2], p, q, [0.5, 0.5], 0.25) == [1, 2, 1]
    assert rejection([1, 2], p, q, [0.5, 0.5], 0.75) == [1, 2, 2]


def test_a_verify_window_draws_its_bonus_at_its_end() -> None:
    """If this fails, a ragged row tests a draft beyond its window or takes row r for the bonus."""
    q = [one_hot(1, 3), one_hot(2, 3)]
    p = [one_hot(1, 3), one_hot(0, 3), one_hot(0, 3)]
    assert rejection([1, 0, 0], p, q, [0.5, 0.5, 0.5], 0.5) == [1, 2]


def test_no_draft_is_one_draw_from_the_target() -> None:
    """If this fails, r = 0 under rejection sampling needs a p row or a draft."""
    assert rejection([], [], [[0.25, 0.75]], [], 0.25) == [1]


@given(st.lists(st.integers(0, 2), min_size=3, max_size=3), st.lists(st.integers(0, 2), min_size=4))
def test_one_hot_rows_are_the_strict_rule(drafts: list[int], target: list[int]) -> None:
    """If this fails, a greedy row in a sampled batch is not decided like a greedy batch."""
    q = [one_hot(token, 3) for token in target[:4]]
    p = [one_hot(token, 3) for token in drafts]
    for u in (2**-12, 0.5, 1 - 2**-12):
        assert rejection(drafts, p, q, [u] * 3, u) == strict(drafts, target[:4])


# ---- rejection: the law, by enumeration ----------------------------------------------------------

Tokens = tuple[int, ...]

Law = tuple[int, ...]
"""A distribution in eighths."""


def laws(tokens: int, eighths: int = 8) -> Iterator[Law]:
    """Every distribution over so many tokens in multiples of 2^-3."""
    if tokens == 1:
        yield (eighths,)
    else:
        for first in range(eighths + 1):
            yield from ((first, *rest) for rest in laws(tokens - 1, eighths - first))


def midpoints(n: int) -> list[float]:
    """n uniforms, each in the middle of its n-th of (0, 1], so that no border is hit."""
    return [(2 * i + 1) / (2 * n) for i in range(n)]


def cells(p: Law, q: Law) -> int:
    """So many equal cells that every border of this p and q lies between two of them."""
    total = sum(max(a - b, 0) for a, b in zip(q, p, strict=True))
    return lcm(8, max(total, 1), *(mass for mass in p if mass))


def float_rows(*rows: Law) -> list[list[float]]:
    return [[mass / 8 for mass in row] for row in rows]


def test_the_emitted_token_follows_the_target_exactly() -> None:
    """If this fails, rejection sampling is lossy for some pair of laws over three tokens.

    All 2,025 pairs of multiples of 2^-3, counted over a grid of uniforms; no tolerance. Beside it:
    a draft is accepted with probability sum(min(p, q)).
    """
    for p, q in product(laws(3), repeat=2):
        emitted, kept = one_step_law(p, q)
        assert emitted == [Fraction(mass, 8) for mass in q], (p, q)
        assert kept == Fraction(sum(map(min, p, q)), 8), (p, q)


def one_step_law(p: Law, q: Law) -> tuple[list[Fraction], Fraction]:
    """Law of the first token and probability of acceptance, the draft being drawn from p."""
    n, (p_row, q_row) = cells(p, q), float_rows(p, q)
    grid = midpoints(n)
    emitted, kept = [Fraction(0)] * 3, Fraction(0)
    for token in (token for token in range(3) if p[token]):
        drawn = Fraction(p[token], 8)
        accepted = sum(len(one_draft(token, p_row, q_row, u)) == 2 for u in grid)
        emitted[token] += drawn * Fraction(accepted, n)
        kept += drawn * Fraction(accepted, n)
        if accepted < n:  # the two uniforms are independent: any rejecting one will do
            others = Counter(one_draft(token, p_row, q_row, grid[-1], u)[0] for u in grid)
            for other, count in others.items():
                emitted[other] += drawn * Fraction(n - accepted, n) * Fraction(count, n)
    return emitted, kept


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (((4, 2, 2), (2, 4, 2)), ((2, 4, 2), (4, 2, 2), (1, 3, 4))),
        (((8, 0, 0), (0, 8, 0)), ((2, 4, 2), (2, 6, 0), (1, 3, 4))),
        (((4, 4, 0), (4, 4, 0)), ((0, 4, 4), (4, 4, 0), (8, 0, 0))),
    ],
)
def test_a_block_follows_the_target_exactly(p: Sequence[Law], q: Sequence[Law]) -> None:
    """If this fails, a token depends on what was drafted or accepted before it.

    Two drafts, every combination of draws and uniforms, the target the same whatever went before:
    after every prefix that some run has, the next token follows q of that position.
    """
    n = lcm(*(cells(a, b) for a, b in zip(p, q, strict=False)))
    grid, p_rows, q_rows = midpoints(n), float_rows(*p), float_rows(*q)
    following: defaultdict[Tokens, Counter[int]] = defaultdict(Counter)
    for drafts in product(range(3), repeat=2):
        weight = p[0][drafts[0]] * p[1][drafts[1]]
        for *accept, last in product(grid, repeat=3) if weight else ():
            new = rejection(drafts, p_rows, q_rows, accept, last)
            for i, token in enumerate(new):
                following[tuple(new[:i])][token] += weight
    assert max(map(len, following)) == 2
    for prefix, counts in following.items():
        expected = [Fraction(mass, 8) for mass in q[len(prefix)]]
        assert [Fraction(counts[token], counts.total()) for token in range(3)] == expected
