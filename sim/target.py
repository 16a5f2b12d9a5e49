"""The simulated target model: a pure function of (incarnation, prefix)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from draftproof.reference.drafter import soft_probs
from draftproof.reference.vocabulary import Config


def mix(a: int, b: int, c: int) -> int:
    """A well-spread 16-bit number of three small ones, the same in every process."""
    x = (a * 0x9E3779B1 ^ b * 0x85EBCA77 ^ c * 0xC2B2AE3D) & 0xFFFFFFFF
    x = (x ^ x >> 15) * 0x2C1B3C6D & 0xFFFFFFFF
    return (x ^ x >> 13) >> 8 & 0xFFFF


def law(incarnation: int, position: int, token: int, vocab_size: int) -> int:
    """The autonomous target's greedy token after `token` at `position`.

    It is a fixed law over the vocabulary, so greedy output must equal plain decoding with it.
    """
    return mix(incarnation, position, token) % vocab_size


def plain_decode(incarnation: int, position: int, token: int, vocab_size: int, n: int) -> list[int]:
    """The next n greedy tokens after `token` at `position`, one by one."""
    output: list[int] = []
    for i in range(n):
        token = law(incarnation, position + i, token, vocab_size)
        output.append(token)
    return output


def prompt_token(incarnation: int, position: int, vocab_size: int) -> int:
    """Token of a prompt."""
    return mix(incarnation, position, 77) % vocab_size


def answers(
    config: Config,
    incarnation: int,
    position: int,
    tokens: Sequence[int],
    accepts: int,
    width: int,
) -> list[int]:
    """The target's token per logit row of one generation.

    position: of the anchor; tokens: anchor, then drafts; accepts: how many drafts the scripted
    target keeps; width: logit rows. The scripted target answers around the drafts.
    """
    v = config.vocab_size
    if config.target == "autonomous":
        return [law(incarnation, position + i, tokens[i], v) for i in range(width)]
    script = list(tokens[1 : 1 + min(accepts, width)])
    for i in range(len(script), width):
        token = mix(incarnation, position + i, 1) % v
        if i + 1 < len(tokens) and token == tokens[i + 1]:
            token = (token + 1) % v
        script.append(token)
    return script


EDGES = (387, 508, 515, 636, 774, 892, 899, 1016)
"""Of 1024: random numbers by which a test, u * p < q with p = 1 or 1/2, ends in another way where
a q of `target_probs` is rounded to half precision."""


def target_probs(
    config: Config, incarnation: int, position: int, answer: int, greedy: bool
) -> list[float]:
    """q of one logit row, in multiples of 2^-10; most mass on the scripted answer.

    Rows differ in how much: a draft may be accepted or rejected against the script.
    """
    probs = [0.0] * config.vocab_size
    if greedy:
        probs[answer] = 1.0
        return probs
    noise = mix(incarnation, position, 5)
    if noise % 6 == 5:  # the drafter's own law, so that nothing remains of q - p
        return soft_probs(answer, config.vocab_size)
    share = (1024, 896, 640, 512, 128)[noise % 5]
    if share < 1024 and noise // 30 % 2:
        share -= 3  # more binary digits than half precision has
    probs[answer] = share / 1024
    other = answer + 1 + noise % (config.vocab_size - 1)
    probs[other % config.vocab_size] += (1024 - share) / 1024
    return probs


@lru_cache(maxsize=4096)
def seed(incarnation: int) -> int:
    """What a request draws its own random numbers from: 64 bits, in which both halves matter."""
    return mix(incarnation, 0, 2) | mix(incarnation, 1, 2) << 40 | 1 << 63


def uniform(incarnation: int, position: int, purpose: int) -> float:
    """A number in (0, 1], often a coarse one, so that ties u * p = q occur, or one at an edge."""
    noise = mix(incarnation, position, 100 + purpose)
    if noise & 3 == 2:
        return EDGES[(noise >> 2) % len(EDGES)] / 1024
    grid = (4096, 8)[noise & 1]
    return (1 + (noise >> 1) % grid) / grid
