"""Random numbers of section 6: published vectors, three implementations, streams of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from random import Random

import pytest
import torch
from torch import Tensor

from draftproof.fuzz.lossless.chi_square import fit
from draftproof.gpu import philox as eager
from draftproof.gpu.kernels import philox as triton
from draftproof.gpu.philox import DRAWN, Seeds, uniforms
from draftproof.reference.philox import Words, philox, uniform
from draftproof.reference.vocabulary import PURPOSES

Uniforms = Callable[[Seeds, int], Tensor]
ONES = 0xFFFFFFFF

# Known answers for philox4x32-10 that come with Random123 (its tests/kat_vectors); the third
# counter and key are the digits of pi.
PUBLISHED: Sequence[tuple[Words, tuple[int, int], Words]] = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)  # fmt: skip


@pytest.mark.parametrize(("counter", "key", "words"), PUBLISHED)
def test_the_published_vectors(counter: Words, key: tuple[int, int], words: Words) -> None:
    """If this fails, the generator is not Philox-4x32-10 but one of our own."""
    assert philox(counter, key) == words
    even, odd = (torch.tensor([[counter[i]], [counter[i + 2]]]) for i in (0, 1))
    low, high = key
    assert eager.philox(even, odd, torch.tensor([[low], [high]])).tolist() == [words[0]]


@pytest.mark.interpreted
def test_the_kernel_on_a_published_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, Triton's generator has another key or another number of rounds.

    The last word of its counters is 0, so only the first of the published ones fits.
    """
    monkeypatch.setattr(triton, "purposes", lambda device: torch.zeros(3, 1, 1, dtype=torch.int64))
    seeds = Seeds(*(torch.tensor([word]) for word in (0, 0, 0, -1)))  # position 0 comes next
    assert triton.uniforms(seeds, 1).flatten().tolist() == [((0x6627E8D5 >> 8) + 1) / 2**24] * 3


def chosen() -> Iterator[tuple[int, int, int]]:
    """(seed, incarnation, position of the anchor); the edges of 32 bits among them."""
    random = Random(6)
    edges = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1)
    yield from ((seed, 5, 7) for seed in edges)
    yield from product((9,), (0, 2**31, 2**32 - 1, 2**40), (0, 2**31 - 2, 2**32 - 3, 2**33))
    for _ in range(40):
        yield random.getrandbits(64), random.getrandbits(33), random.getrandbits(33)


@pytest.mark.interpreted
@pytest.mark.parametrize("draw", [uniforms, triton.uniforms], ids=["eager", "triton"])
def test_numbers_are_those_of_the_model_bit_for_bit(draw: Uniforms) -> None:
    """If this fails, a sampled output cannot be reproduced on another backend."""
    rows = list(chosen())
    words = [(seed & ONES, seed >> 32, inc, position) for seed, inc, position in rows]
    found = draw(Seeds(*map(torch.tensor, zip(*words, strict=True))), 5)
    assert found.dtype == torch.float32
    for purpose, name in enumerate(DRAWN):
        number = PURPOSES.index(name)
        assert found[purpose].tolist() == [
            [uniform(seed, inc, position + 1 + j, number) for j in range(5)]
            for seed, inc, position in rows
        ]


@pytest.mark.parametrize("draw", [uniforms, triton.uniforms], ids=["eager", "triton"])
def test_no_rows_draw_nothing(draw: Uniforms) -> None:
    """If this fails, a batch without generations is a special case."""
    assert draw(Seeds(*[torch.empty(0, dtype=torch.int64)] * 4), 5).shape == (3, 0, 5)


def test_the_smallest_and_the_largest_number() -> None:
    """If this fails, u leaves (0, 1], or is no multiple of 2^-24."""
    words = torch.tensor([0, 255, 256, ONES])
    expected = [1 / 2**24, 1 / 2**24, 2 / 2**24, 1.0]
    assert [((word >> 8) + 1) / 2**24 for word in words.tolist()] == expected
    drawn = [uniform(7, 1, position, 2) for position in range(2000)]
    assert all(0 < u <= 1 and u * 2**24 == int(u * 2**24) for u in drawn)


# Streams

SAMPLES = 4096
BINS = 8


def stream(seed: int = 3, incarnation: int = 1, purpose: int = 1, shift: int = 0) -> list[int]:
    """Numbers of consecutive positions, each as one of `BINS` equal parts of (0, 1]."""
    numbers = (uniform(seed, incarnation, shift + p, purpose) for p in range(SAMPLES))
    return [min(int(u * BINS), BINS - 1) for u in numbers]


def independent(one: list[int], other: list[int]) -> float:
    """p of a chi-square test that two streams have nothing to do with each other."""
    counts = [0] * BINS**2
    for a, b in zip(one, other, strict=True):
        counts[a * BINS + b] += 1
    return fit(counts, [BINS**-2] * BINS**2).p


def test_every_purpose_has_a_stream_of_its_own() -> None:
    """If this fails, one draw knows of another: REJ-1."""
    streams = [stream(purpose=purpose) for purpose in range(len(PURPOSES))]
    assert len(streams) == 4
    for one, other in combinations(streams, 2):
        assert independent(one, other) > 1e-6
    assert independent(streams[0], streams[0]) == 0


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(stream(seed=4), id="seed"),
        pytest.param(stream(seed=3 | 1 << 32), id="upper half of the seed"),
        pytest.param(stream(incarnation=2), id="incarnation"),
        pytest.param(stream(shift=1), id="position"),
    ],
)
def test_neighbours_have_streams_of_their_own(other: list[int]) -> None:
    """If this fails, two requests, two lives or two positions draw alike."""
    assert independent(stream(), other) > 1e-6


@pytest.mark.interpreted
def test_what_a_worker_draws_differs_by_purpose() -> None:
    """If this fails, the three tables of a step are one table."""
    seeds = Seeds(*(torch.tensor([word]) for word in (3, 0, 1, 4)))
    for table in (uniforms(seeds, 64), triton.uniforms(seeds, 64)):
        rows = [set(row[0].tolist()) for row in table]
        assert all(not one & other for one, other in combinations(rows, 2))
