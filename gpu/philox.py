"""Random numbers that depend on nothing but who draws them where (section 6).

Philox-4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
(SC 2011), in 64-bit integers: every word has 32 bits, and a product of two words wraps to the same
64 bits as without a sign.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from draftproof.gpu.constants import ramp
from draftproof.reference.vocabulary import PURPOSES

DRAWN = ("accept", "recover", "draft")
"""What a worker draws for; the target's own tokens are drawn by whoever runs the target."""

WORD = 0xFFFFFFFF
MULTIPLIERS = (0xCD9E8D57, 0xD2511F53)
"""Of the third word of the counter, then of the first."""

KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


class Seeds(NamedTuple):
    """Whose numbers: low and high word of a seed, incarnation, position of the anchor; int64 [G].

    Incarnations and positions count by their lowest 32 bits.
    """

    low: Tensor
    high: Tensor
    incarnations: Tensor
    positions: Tensor


def uniforms(seeds: Seeds, count: int) -> Tensor:
    """Numbers in (0, 1] for each purpose of `DRAWN`, float32 [3, G, count].

    Number j belongs to the token j + 1 places behind the anchor.
    """
    device = seeds.positions.device
    shape = len(DRAWN), len(seeds.positions), count
    position = seeds.positions.unsqueeze(1) + 1 + ramp(count, device)
    counter = seeds.incarnations.unsqueeze(1), position, purposes(device), None
    first, second, third, fourth = (
        torch.zeros(shape, dtype=torch.int64, device=device) if word is None else word.expand(shape)
        for word in counter
    )
    key = torch.stack([seeds.low, seeds.high]).view(2, 1, -1, 1)
    words = philox(torch.stack([first, third]) & WORD, torch.stack([second, fourth]) & WORD, key)
    return ((words >> 8) + 1).to(torch.float32) / 2**24


def philox(even: Tensor, odd: Tensor, key: Tensor) -> Tensor:
    """The first of the four words for each counter and key, int64.

    even, odd: words 0 and 2, and words 1 and 3, of the counters, int64 [2, ...]; key: int64
    [2, ...], that of lower and of higher words.
    """
    multipliers, steps = (constant(words, key.device) for words in (MULTIPLIERS, KEY_STEPS))
    shape = 2, *[1] * (even.dim() - 1)
    for i in range(ROUNDS):
        product = even.flip(0) * multipliers.view(shape)
        even = (product >> 32 & WORD) ^ odd ^ (key + i * steps.view(shape) & WORD)
        odd = product & WORD
    return even[0]


@cache
def purposes(device: torch.device) -> Tensor:
    """The purposes of `DRAWN` as they go into the counter, int64 [3, 1, 1]."""
    return torch.tensor([[[PURPOSES.index(name)]] for name in DRAWN], device=device)


@cache
def constant(words: tuple[int, int], device: torch.device) -> Tensor:
    """Two words as int64 [2]."""
    return torch.tensor(words, device=device)
