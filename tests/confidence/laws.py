"""The exact law of what a request emits under a scheduler, by enumeration in fractions.

Two tokens, 0 and 1. A world says what target and drafter would do after any prefix, and how
confident the drafter is; the confidence of position k depends on the drafts before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

Tokens = tuple[int, ...]
Law = dict[Tokens, Fraction]
Schedule = Callable[[list[list[float]]], Sequence[int]]
"""Confidences of all requests' drafts [R][K] to the number of drafts verified of each."""


@dataclass(frozen=True)
class World:
    """target, draft: probability of token 1 after a prefix; confidence: of the draft after it."""

    block: int
    target: Callable[[Tokens], Fraction]
    draft: Callable[[Tokens], Fraction]
    confidence: Callable[[Tokens], float]

    def confidences(self, prefix: Tokens, drafts: Tokens) -> list[float]:
        return [self.confidence(prefix + drafts[:k]) for k in range(self.block)]

    def blocks(self, prefix: Tokens) -> Law:
        """Every block of drafts that may be drawn after a prefix, with its probability."""
        return chain(self.draft, prefix, self.block)

    def verified(self, prefix: Tokens, drafts: Tokens) -> Law:
        """Every run of new tokens when exactly these drafts are tested (section 6)."""
        law: Law = defaultdict(Fraction)
        weight = Fraction(1)
        for i, token in enumerate(drafts):
            before = prefix + drafts[:i]
            q, p = masses(self.target(before)), masses(self.draft(before))
            kept = min(Fraction(1), q[token] / p[token])
            rest = [max(Fraction(0), a - b) for a, b in zip(q, p, strict=True)]
            for other, mass in enumerate(rest):
                if mass:
                    law[(*drafts[:i], other)] += weight * (1 - kept) * mass / sum(rest)
            weight *= kept
        for bonus, mass in enumerate(masses(self.target(prefix + drafts))):
            law[(*drafts, bonus)] += weight * mass
        return {tokens: mass for tokens, mass in law.items() if mass}


def masses(one: Fraction) -> tuple[Fraction, Fraction]:
    return 1 - one, one


def chain(law: Callable[[Tokens], Fraction], prefix: Tokens, length: int) -> Law:
    """The law of the next `length` tokens."""
    runs: Law = {(): Fraction(1)}
    for _ in range(length):
        runs = {
            (*run, token): weight * mass
            for run, weight in runs.items()
            for token, mass in enumerate(masses(law(prefix + run)))
            if mass
        }
    return runs


def completed(world: World, prefix: Tokens, run: Tokens, length: int) -> Law:
    """A run of new tokens cut to `length`, or decoded on by the target alone."""
    more = chain(world.target, prefix + run, max(0, length - len(run)))
    return {(run + rest)[:length]: mass for rest, mass in more.items()}


def one_step(worlds: Sequence[World], schedule: Schedule) -> dict[tuple[Tokens, ...], Fraction]:
    """The joint law of the first K + 1 tokens of all requests, of which one step is scheduled."""
    joint: dict[tuple[Tokens, ...], Fraction] = defaultdict(Fraction)
    for blocks in product(*(world.blocks(()).items() for world in worlds)):
        drafts = [block for block, _ in blocks]
        confidences = [w.confidences((), block) for w, block in zip(worlds, drafts, strict=True)]
        lengths = schedule(confidences)
        outcomes = [
            emitted(world, block[:length])
            for world, block, length in zip(worlds, drafts, lengths, strict=True)
        ]
        for runs in product(*(outcome.items() for outcome in outcomes)):
            weight = Fraction(1)
            for _, mass in (*blocks, *runs):
                weight *= mass
            joint[tuple(run for run, _ in runs)] += weight
    return dict(joint)


def emitted(world: World, tested: Tokens) -> Law:
    law: Law = defaultdict(Fraction)
    for run, weight in world.verified((), tested).items():
        for tokens, mass in completed(world, (), run, world.block + 1).items():
            law[tokens] += weight * mass
    return law


def plain(worlds: Sequence[World]) -> dict[tuple[Tokens, ...], Fraction]:
    """The same law for plain decoding, request by request."""
    joint: dict[tuple[Tokens, ...], Fraction] = {}
    for runs in product(*(chain(w.target, (), w.block + 1).items() for w in worlds)):
        weight = Fraction(1)
        for _, mass in runs:
            weight *= mass
        joint[tuple(run for run, _ in runs)] = weight
    return joint


Planner = Callable[[list[list[float]]], int]
"""Confidences of all blocks drafted so far, the current one last, to the drafts verified now."""


def several_steps(world: World, planner: Planner, length: int) -> Law:
    """The law of one request's first tokens when every step is scheduled."""
    law: Law = defaultdict(Fraction)

    def step(committed: Tokens, drafted: list[list[float]], weight: Fraction) -> None:
        if len(committed) >= length:
            law[committed[:length]] += weight
            return
        for block, chance in world.blocks(committed).items():
            history = [*drafted, world.confidences(committed, block)]
            tested = block[: planner(history)]
            for run, mass in world.verified(committed, tested).items():
                step(committed + run, history, weight * chance * mass)

    step((), [], Fraction(1))
    return dict(law)
