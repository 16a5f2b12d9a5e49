"""The seeded schedules that judge mutants: few enough for one after the other, and telling ones.

They are chosen by what happens in them (`draftproof.fuzz.coverage`), never by what they kill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from draftproof.fuzz.cases import LONG_EVERY, seeded_case
from draftproof.fuzz.coverage.observe import observe
from draftproof.fuzz.mutation.oracles import DISTURB, RANKS, WORKERS, Campaign
from draftproof.fuzz.mutation.scope import SEED, STEPS
from draftproof.fuzz.ranks.cases import seeded_world
from draftproof.reference.vocabulary import Batch, Config
from draftproof.sim.loading import load
from draftproof.sim.ranks import World
from draftproof.sim.run import Expected, Run

LOOKED_AT, WORLDS = 600, 30
"""Seeded cases, and those of several ranks, from which they are chosen."""
RANKED = STEPS // 8
"""So many of the steps are for several ranks."""

Case = TypeVar("Case")


def campaign() -> Campaign:
    """The runs and worlds that judge mutants: about `STEPS` steps. Short cases only.

    Also imports the worker, so that whoever is forked need not.
    """
    load(WORKERS)
    worlds = {index: seeded_world(SEED, index, RANKS, disturb=DISTURB) for index in range(WORLDS)}
    ranked = _chosen(worlds, _in_company, lambda world: sum(len(r.steps) for r in world.ranks))
    short = (index for index in range(LOOKED_AT) if index % LONG_EVERY != LONG_EVERY - 1)
    runs = {index: seeded_case(SEED, index) for index in short}
    alone = _chosen(runs, _happening, lambda run: len(run.steps))
    return Campaign(dict(_up_to(alone, STEPS - RANKED)), dict(_up_to(ranked, RANKED)))


def _up_to(chosen: Iterator[tuple[int, Case, int]], most: int) -> Iterator[tuple[int, Case]]:
    """As many as so many steps hold."""
    steps = 0
    for index, case, count in chosen:
        if steps + count <= most:
            steps += count
            yield index, case


def _chosen(
    cases: Mapping[int, Case],
    what: Callable[[Case], frozenset[object]],
    steps: Callable[[Case], int],
) -> Iterator[tuple[int, Case, int]]:
    """All of them, the most telling for its steps first.

    What happens in a case counts half as much whenever it happened in another one before.
    """
    happening = {index: what(case) for index, case in cases.items()}
    seen = Counter[object]()
    while happening:
        worth = {
            index: sum(0.5 ** seen[one] for one in ones) / (1 + steps(cases[index]))
            for index, ones in happening.items()
        }
        best = max(worth, key=lambda index: (worth[index], -index))
        seen.update(happening.pop(best))
        yield best, cases[best], steps(cases[best])


def _happening(run: Run) -> frozenset[object]:
    """Points of the catalogue, the kind of its configuration, what its plans share out, and whether
    a graph for few tokens comes before one for more.
    """
    return frozenset({*observe(run).hits, _kind(run.config), *_plans(run), *_larger_buckets(run)})


def _kind(config: Config) -> object:
    rules = config.use_rejection_sampling, config.drawn_uniforms, config.target_logits
    lengths = config.confidence_scheduling, config.draft_len_schedule is None
    return *rules, *lengths, config.target, bool(config.graph_batch_sizes)


def _plans(run: Run) -> Iterator[object]:
    for step in run.steps:
        batch, block = step.batch, run.config.max_draft_len
        if batch.verify_budget is not None and block > 1:
            real = sum(row.incarnation > 0 for row in batch.rows)
            scarce = 0 < batch.verify_budget < real * block
            yield min(real, 3), scarce, batch.verify_bucket is not None


def _larger_buckets(run: Run) -> Iterator[object]:
    least: dict[int, int] = {}
    for step in run.steps:
        rows, bucket = len(step.batch.generations), step.batch.verify_bucket
        if bucket is not None and step.batch.mode == "replay":
            if least.setdefault(rows, bucket) < bucket:
                yield "a larger bucket"
            least[rows] = min(least[rows], bucket)


def _in_company(world: World) -> frozenset[object]:
    """What the ranks do in one step, whoever does it."""
    return frozenset(tuple(sorted(map(_doing, steps))) for _, steps in world.rounds)


def _doing(step: Expected) -> tuple[object, ...]:
    batch: Batch = step.batch
    return batch.mode, step.fault or "", batch.draft_len > 0, batch.verify_lens is not None
