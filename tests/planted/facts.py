"""Corrupting one fact of a passing run, and seeing which invariant notices.

A corruption is a function of one fact and of the history before it: it returns what takes the
fact's place, or None where it does not apply. Facts are journal entries and states.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from traceback import extract_tb
from typing import Any, TypeVar

from draftproof.fuzz.cases import seeded_case
from draftproof.properties.history import History
from draftproof.properties.invariants import Invariants
from draftproof.reference.vocabulary import Batch, Config, WorkerState
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import Recompute, Step, Submit, Warmup
from draftproof.sim.journal import (
    Answered,
    Delivered,
    Departed,
    Entry,
    Fed,
    Published,
    Submitted,
)
from draftproof.sim.run import Run, replay

Fact = Entry | WorkerState
F = TypeVar("F", Fed, Answered, Delivered, Departed, Submitted, Published, WorkerState)
Corrupt = Callable[[Any, History], Any]


@dataclass(frozen=True)
class Planted:
    """One corruption: of which kind of fact, and the invariant that must notice."""

    name: str
    invariant: str
    kind: type
    corrupt: Corrupt


PLANTED: list[Planted] = []


def breaks(
    invariant: str, kind: type[F], variant: object = ""
) -> Callable[[Callable[[F, History], Any]], Callable[[F, History], Any]]:
    """Register a corruption of facts of this kind, which must break exactly this invariant."""

    def register(corrupt: Callable[[F, History], Any]) -> Callable[[F, History], Any]:
        name = f"{corrupt.__name__} {variant}".strip()
        PLANTED.append(Planted(name, invariant, kind, corrupt))
        return corrupt

    return register


@cache
def passing_runs() -> list[Run]:
    """Seeded cases, and warm-ups before anything else, which are rare among them."""
    config = Config(3, window_size=4, num_stages=2, max_num_requests=2)
    first = replay(config, [Warmup(context=True), Submit(0, limit=9), Step(), Recompute(0), Step()])
    return [first, *(seeded_case(11, case) for case in range(200))]


def noticed(planted: Planted) -> Iterator[Divergence]:
    """What came of the corruption, at most once in each run; a run may end too soon to tell."""
    for run in passing_runs():
        try:
            watch_corrupted(planted, run)
        except Divergence as divergence:
            yield divergence


def watch_corrupted(planted: Planted, run: Run) -> None:
    """Show a watch the whole run, with the first fact that fits corrupted."""
    watch, done = Invariants(run.config), False

    def shown(fact: Fact) -> Any:
        nonlocal done
        if done or not isinstance(fact, planted.kind):
            return fact
        mine = copy.deepcopy(fact) if isinstance(fact, WorkerState) else fact
        instead = planted.corrupt(mine, watch.history)
        done = instead is not None
        return instead if done else fact

    for entries, state in moments(run):
        for entry in entries:
            facts = shown(entry)
            watch.step(facts if isinstance(facts, list) else [facts], None)
        if state is not None:
            watch.step([], shown(state))


def moments(run: Run) -> Iterator[tuple[Sequence[Entry], WorkerState | None]]:
    """What a watch is shown, in order."""
    seen = 0
    for step in run.steps:
        yield run.journal.entries[seen : step.entries], step.state
        seen = step.entries
    yield run.journal.entries[seen:], None


def raised_at(divergence: Divergence) -> tuple[str, int]:
    """File and line of the check that called `broken`."""
    caller, last = extract_tb(divergence.__traceback__)[-2:]
    assert last.name == "broken"
    return Path(caller.filename).name, caller.lineno or 0


# What corruptions need


def with_batch(fed: Fed, **changes: Any) -> Fed:
    return replace(fed, batch=replace(fed.batch, **changes))


def retagged(fed: Fed) -> Fed:
    """The hidden rows as the rows of the batch say, so that nothing but those is wrong."""
    history = History(Config(1, 1, 1, 1))
    history.feeding(fed.batch)
    hidden = fed.batch.hidden
    assert hidden is not None
    fresh = hidden[:0]
    fresh.frombytes(b"".join(history.hidden))
    return with_batch(fed, hidden=fresh)


def with_generation(fed: Fed, g: int, **changes: Any) -> Fed:
    """One generation row changed, its hidden rows with it."""
    rows = list(fed.batch.generations)
    rows[g] = replace(rows[g], **changes)
    return retagged(with_batch(fed, generations=tuple(rows)))


def with_context(fed: Fed, c: int, **changes: Any) -> Fed:
    """One context row changed, its hidden rows with it."""
    rows = list(fed.batch.contexts)
    rows[c] = replace(rows[c], **changes)
    return retagged(with_batch(fed, contexts=tuple(rows)))


def bumped(buffer: Any, index: int, by: float = 1) -> Any:
    """A copy of an array with one number changed."""
    fresh = buffer[:]
    fresh[index] += by
    return fresh


def real_generations(batch: Batch, history: History) -> list[int]:
    """Generations of submitted requests, by their index."""
    return [g for g, row in enumerate(batch.generations) if row.incarnation in history.lives]
