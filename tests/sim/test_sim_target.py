"""The simulated target model."""

from batches import small
from hypothesis import given
from hypothesis import strategies as st

from draftproof.reference.acceptance import strict
from draftproof.sim.target import answers, law, plain_decode, prompt_token, target_probs, uniform

ORDINALS = st.integers(0, 2**14)
POSITIONS = st.integers(0, 2**14)
VOCABULARIES = st.integers(2, 70)


def test_the_law_is_the_same_in_every_process() -> None:
    """If this fails, saved traces mean something else than when they were saved."""
    assert [law(1, p, 5, 64) for p in range(6)] == [48, 39, 57, 34, 15, 18]
    assert [law(i, 3, 5, 64) for i in range(6)] == [10, 34, 1, 17, 1, 43]
    assert [prompt_token(2, p, 64) for p in range(6)] == [59, 28, 2, 38, 53, 24]
    assert [uniform(1, p, 0) for p in range(4)] == [892 / 1024, 0.760986328125, 0.25, 0.25]


@given(incarnation=ORDINALS, position=POSITIONS, token=st.integers(0, 63), v=VOCABULARIES)
def test_the_law_depends_on_its_arguments_alone_and_stays_in_the_vocabulary(
    incarnation: int, position: int, token: int, v: int
) -> None:
    """If this fails, greedy output depends on when or how often the target was asked."""
    once = law(incarnation, position, token, v)
    assert 0 <= once < v
    assert once == law(incarnation, position, token, v)


def test_the_law_looks_at_each_of_its_arguments() -> None:
    """If this fails, tokens of a wrong request, position or prefix go unnoticed."""
    assert len({law(1, 2, token, 2**16) for token in range(100)}) > 95
    assert len({law(1, position, 2, 2**16) for position in range(100)}) > 95
    assert len({law(incarnation, 1, 2, 2**16) for incarnation in range(100)}) > 95


def test_plain_decoding_asks_the_law_token_by_token() -> None:
    """If this fails, the oracle for greedy output is not plain decoding."""
    a = law(3, 10, 6, 64)
    b = law(3, 11, a, 64)
    c = law(3, 12, b, 64)
    assert plain_decode(3, 10, 6, 64, 3) == [a, b, c]
    assert plain_decode(3, 10, 6, 64, 0) == []


@given(
    incarnation=ORDINALS,
    position=POSITIONS,
    tokens=st.lists(st.integers(0, 5), min_size=1, max_size=8),
    accepts=st.integers(0, 8),
    data=st.data(),
)
def test_a_scripted_accept_count_comes_true(
    incarnation: int, position: int, tokens: list[int], accepts: int, data: st.DataObject
) -> None:
    """If this fails, a schedule does not say how many drafts are kept, but chance does."""
    width = data.draw(st.integers(1, len(tokens)))
    config = small(vocab_size=6)
    script = answers(config, incarnation, position, tokens, accepts, width)
    assert len(script) == width
    assert all(0 <= token < 6 for token in script)
    kept = strict(tokens[1:], script)
    assert len(kept) == min(accepts, width - 1) + 1


@given(
    incarnation=ORDINALS,
    position=POSITIONS,
    tokens=st.lists(st.integers(0, 2), min_size=1, max_size=8),
)
def test_the_autonomous_target_says_what_plain_decoding_says(
    incarnation: int, position: int, tokens: list[int]
) -> None:
    """If this fails, a correct worker fails the comparison with plain decoding, or a wrong one
    passes it."""
    config = small(vocab_size=3, target="autonomous")
    script = answers(config, incarnation, position, tokens, 0, len(tokens))
    kept = strict(tokens[1:], script)
    assert kept == plain_decode(incarnation, position, tokens[0], 3, len(kept))


@given(incarnation=ORDINALS, position=POSITIONS, v=VOCABULARIES, data=st.data())
def test_probabilities_are_exact_in_float32(
    incarnation: int, position: int, v: int, data: st.DataObject
) -> None:
    """If this fails, float32 rounds them, and differences are no longer bugs."""
    answer = data.draw(st.integers(0, v - 1))
    config = small(vocab_size=v)
    for greedy in (False, True):
        probs = target_probs(config, incarnation, position, answer, greedy)
        assert len(probs) == v
        assert sum(probs) == 1
        assert all(p >= 0 and (p * 2**10).is_integer() for p in probs)
        assert probs[answer] > 0
        if greedy:
            assert probs[answer] == 1


@given(incarnation=ORDINALS, position=POSITIONS, purpose=st.integers(0, 2))
def test_random_numbers_are_exact_in_float32(incarnation: int, position: int, purpose: int) -> None:
    """If this fails, float32 rounds them, or one of them is 0, which no generator returns."""
    u = uniform(incarnation, position, purpose)
    assert 0 < u <= 1
    assert (u * 2**12).is_integer()


def test_random_numbers_reach_both_ends_and_differ_by_purpose() -> None:
    """If this fails, ties and the ends of (0, 1] are not tried, or the streams are the same."""
    numbers = [[uniform(i, p, purpose) for i in range(80) for p in range(80)] for purpose in (0, 1)]
    assert max(numbers[0]) == 1
    assert min(numbers[0]) < 2**-10
    assert numbers[0] != numbers[1]
    assert sum((u * 8).is_integer() for u in numbers[0]) > len(numbers[0]) / 3
