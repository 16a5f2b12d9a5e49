"""Sampled decoding through a whole worker under laws that know no context, with no model beside it.

The target's law q and the drafter's p know no context, so what is emitted must be independent draws
from q, whatever p is and however long the drafts are. Every row is decoded until it has its share
of the tokens, and exactly those are counted. The worker draws its own random numbers (semantics,
section 6), so the same tokens come in every run.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from draftproof.reference.acceptance import sample
from draftproof.reference.drafter import make_drafter, scattered
from draftproof.reference.philox import uniform
from draftproof.reference.vocabulary import (
    PURPOSES,
    Batch,
    Collaborators,
    Config,
    DraftLaw,
    GenerationRow,
    StepResult,
    Worker,
)
from draftproof.sim.choices import Choices, Seeded
from draftproof.sim.lockstep import MakeWorker
from draftproof.sim.packing import hidden_rows
from draftproof.sim.shapes import listed

ROWS = 64
BLOCK = 3
GRID = 1024
"""Probabilities are multiples of one part in so many (semantics, section 19)."""

TARGET = PURPOSES.index("target")

Probs = tuple[float, ...]
Plan = Iterator[tuple[int, bool]]
"""For each step its draft length r, and whether it is all-greedy."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A target's law q, and what drafts are drawn from: p per position, None for the exact
    drafter's own; d2t: the draft vocabulary, if it is narrower.
    """

    name: str
    q: Probs
    p: DraftLaw | None
    d2t: tuple[int, ...] | None
    seed: int

    def wide(self, k: int) -> list[float] | None:
        """p of position k over the target's vocabulary."""
        return None if self.p is None else scattered(self.p[k], self.d2t, len(self.q))

    def acceptance(self, k: int) -> float | None:
        """How likely draft k passes its test: sum of min(q, p)."""
        wide = self.wide(k)
        return None if wide is None else sum(map(min, self.q, wide))


@dataclass(frozen=True, slots=True)
class Setting:
    """What is decoded: a pair, under a fixed draft length or (None) a mixed schedule."""

    pair: Pair
    draft_len: int | None

    @property
    def schedule(self) -> str:
        """In words."""
        return "mixed" if self.draft_len is None else f"r = {self.draft_len}"

    def plan(self) -> Plan:
        """A mixed schedule takes any r from 0 to K, and one step in three is all-greedy."""
        choices = Seeded(self.pair.seed)
        while True:
            if self.draft_len is not None:
                yield self.draft_len, False
            else:
                yield choices.below(BLOCK + 1), choices.below(3) == 0


@dataclass(slots=True)
class Emitted:
    """Tokens of each row, in order; grown: those behind the drafts of a step that was given fewer
    drafts than it tests; tested, passed: per position of a block, drafts drawn from p.
    """

    rows: list[list[int]] = field(default_factory=lambda: [[] for _ in range(ROWS)])
    grown: list[int] = field(default_factory=list)
    tested: list[int] = field(default_factory=lambda: [0] * BLOCK)
    passed: list[int] = field(default_factory=lambda: [0] * BLOCK)
    steps: int = 0


def decode(setting: Setting, make: MakeWorker, tokens: int) -> Emitted:
    """So many tokens in all, an equal share for each row."""
    share, plan = -(-tokens // ROWS), setting.plan()
    decoding = Decoding(setting.pair, make)
    while min(map(len, decoding.emitted.rows)) < share:
        decoding.step(*next(plan))
    decoding.emitted.rows = [row[:share] for row in decoding.emitted.rows]
    return decoding.emitted


def alike(pair: Pair, one: MakeWorker, other: MakeWorker, steps: int) -> int:
    """How many steps two workers do alike, token for token; each is sampled, and r takes turns."""
    left, right = Decoding(pair, one), Decoding(pair, other)
    for step in range(steps):
        for decoding in (left, right):
            decoding.step(step % (BLOCK + 1), all_greedy=False)
        if (left.emitted, left.drafts) != (right.emitted, right.drafts):
            return step
    return steps


class Decoding:
    """An engine as small as can be: the same rows in every step, all of them generations."""

    def __init__(self, pair: Pair, make: MakeWorker) -> None:
        self.pair = pair
        config = worker_config(pair)
        lent = Collaborators(lambda seam: None, make_drafter(config), pair.p)
        self.worker: Worker = make(config, lent)
        self.emitted = Emitted()
        self.positions = [0] * ROWS
        self.drafts: list[list[int]] = [[] for _ in range(ROWS)]
        self.drawn = False
        self._probs = array("f", pair.q)

    def step(self, draft_len: int, all_greedy: bool) -> StepResult:
        """One forward; its tokens go into `emitted`."""
        proposed = min(len(self.drafts[0]), draft_len)
        batch = self._batch(draft_len, proposed, all_greedy)
        self.worker.prepare(batch)
        result = self.worker.forward(batch)
        tokens, counts = listed(result.new_tokens), listed(result.new_tokens_lens)
        emitted = self.emitted
        for g, (row, n) in enumerate(zip(tokens, counts, strict=True)):
            emitted.rows[g] += row[:n]
            self.positions[g] += n
            if not all_greedy and proposed < draft_len:
                emitted.grown += row[proposed:n]
        if not all_greedy and self.drawn:
            for k in range(proposed):
                emitted.tested[k] += sum(n > k for n in counts)
                emitted.passed[k] += sum(n > k + 1 for n in counts)
        emitted.steps += 1
        self.drafts, self.drawn = listed(result.next_draft_tokens), not all_greedy
        return result

    def _batch(self, r: int, proposed: int, all_greedy: bool) -> Batch:
        rows, step = ROWS * (1 + r), self.emitted.steps
        zeros = [0] * (r - proposed)
        return Batch(
            step=step,
            mode="eager",
            draft_len=r,
            contexts=(),
            generations=tuple(
                GenerationRow(1 + g, 1 + g, g, position, proposed, all_greedy, self._seed(g))
                for g, position in enumerate(self.positions)
            ),
            drafts=array("q", [x for row in self.drafts for x in (*row[:proposed], *zeros)]),
            target_tokens=array("q", self._target(r) if all_greedy else [0] * rows),
            hidden=hidden_rows([(1 + g, p, 1 + r) for g, p in enumerate(self.positions)], step),
            all_greedy=all_greedy,
            target_probs=None if all_greedy else self._probs * rows,
        )

    def _seed(self, g: int) -> int:
        """Two neighbours share one: their incarnations tell them apart."""
        return self.pair.seed << 32 | g // 2

    def _target(self, r: int) -> Iterator[int]:
        """The target's own tokens, for steps that are accepted by the strict rule."""
        for g, position in enumerate(self.positions):
            for i in range(1 + r):
                u = uniform(self._seed(g), 1 + g, position + 1 + i, TARGET)
                yield sample(self.pair.q, u)


def worker_config(pair: Pair) -> Config:
    """A worker for all rows."""
    return Config(
        max_draft_len=BLOCK,
        window_size=4,
        num_stages=1,
        max_num_requests=ROWS,
        vocab_size=len(pair.q),
        use_rejection_sampling=True,
        d2t=pair.d2t,
        drawn_uniforms=True,
    )


# The pairs


def random_law(choices: Choices, size: int) -> Probs:
    """Any point of the simplex is as likely as any other; in one of three a token has no mass."""
    cuts = sorted(choices.below(GRID + 1) for _ in range(size - 1))
    masses = [b - a for a, b in zip([0, *cuts], [*cuts, GRID], strict=True)]
    if choices.below(3) == 0 and size > 2:
        token = choices.below(size - 1)
        masses[token + 1] += masses[token]
        masses[token] = 0
    return tuple(mass / GRID for mass in masses)


SIZES: Sequence[tuple[int, int | None]] = (
    (8, None), (6, 4), (3, None), (2, None), (8, 5), (5, None),
    (7, None), (4, 3), (8, None), (6, None), (8, 2), (5, None),
)  # fmt: skip
"""Of each pair: tokens of the target, and of the drafter if it has fewer."""

EXACT = (0, 1)
"""Pairs whose p is the exact drafter's own."""


def pairs() -> list[Pair]:
    """All of them; the same everywhere."""
    return [_pair(index) for index in range(len(SIZES))]


def _pair(index: int) -> Pair:
    choices: Any = Seeded(1_000 + index)
    size, narrow = SIZES[index]
    q, d2t = random_law(choices, size), None
    if narrow is not None:
        tokens = list(range(size))
        d2t = tuple(tokens.pop(choices.below(len(tokens))) for _ in range(narrow))
    if index in EXACT:
        return Pair(f"{index} exact", q, None, d2t, index)
    p = tuple(random_law(choices, narrow or size) for _ in range(BLOCK))
    return Pair(str(index), q, p, d2t, index)


def settings(chosen: Sequence[Pair]) -> list[Setting]:
    """Every pair under the mixed schedule and under every fixed one, mixed ones first."""
    mixed = [Setting(pair, None) for pair in chosen]
    return mixed + [Setting(pair, r) for pair in chosen for r in range(BLOCK + 1)]
