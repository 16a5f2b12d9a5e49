"""Random numbers that depend on nothing but who draws them where (semantics, section 6).

Philox-4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
(SC 2011): a counter and a key in, four 32-bit words out.
"""

from __future__ import annotations

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORD = 0xFFFFFFFF

Words = tuple[int, int, int, int]


def philox(counter: Words, key: tuple[int, int]) -> Words:
    """Four words of 32 bits for a counter of four and a key of two."""
    a, b, c, d = counter
    low, high = key
    for _ in range(_ROUNDS):
        first, second = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b = second >> 32 ^ b ^ low, second & _WORD
        c, d = first >> 32 ^ d ^ high, first & _WORD
        low, high = low + _KEY_STEPS[0] & _WORD, high + _KEY_STEPS[1] & _WORD
    return a, b, c, d


def uniform(seed: int, incarnation: int, position: int, purpose: int) -> float:
    """A number in (0, 1], a multiple of 2^-24, for one draw of one request.

    seed: of the request, 64 bits; position: of the token that is drawn or tested; purpose: an
    index of `PURPOSES`, so that each draws from a stream of its own.
    """
    key = (seed & _WORD, seed >> 32 & _WORD)
    word = philox((incarnation & _WORD, position & _WORD, purpose, 0), key)[0]
    return ((word >> 8) + 1) / 2**24
