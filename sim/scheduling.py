"""Parts of a batch that follow from a few numbers: chunks, dummies, verify windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from draftproof.reference.confidence import Snapshot, calibrated
from draftproof.reference.vocabulary import Config, ContextRow, GenerationRow
from draftproof.sim.events import Step
from draftproof.sim.journal import Look
from draftproof.sim.requests import Request
from draftproof.sim.snapshots import budget_of

Sources = Callable[[Snapshot, Sequence[GenerationRow]], list[int]]


def chunks(prefilling: Sequence[Request], longest: int, left: int) -> list[ContextRow]:
    """Prompt chunks within so many tokens; each leaves a token for those behind it."""
    made: list[ContextRow] = []
    for behind in reversed(range(len(prefilling))):
        most = left - behind
        made.append(prefilling[len(made)].chunk(min(longest or most, most)))
        left -= made[-1].length
    return made


def in_turn(ready: Sequence[Request], rotate: int) -> list[Request]:
    """The order of a step's rows: whoever's turn it is first, but prompts before the others."""
    turn = rotate % len(ready) if ready else 0
    turned = [*ready[turn:], *ready[:turn]]
    return sorted(turned, key=lambda request: request.decoding)


def dummies(config: Config, request_id: int, count: int, r: int) -> list[GenerationRow]:
    """Rows that stand for nobody; their drafts are all 1."""
    return [GenerationRow(request_id, 0, config.max_num_requests, r)] * count


def cycled(values: tuple[int, ...], count: int) -> list[int]:
    """So many values, from the first one on, again and again."""
    return [values[i % len(values)] for i in range(count)]


def forced_windows(config: Config, event: Step, r: int, real: int, count: int) -> list[int] | None:
    """Verify windows that the schedule asks for, 1 for rows that stand for nobody; None: none."""
    if not (event.windows and whole_blocks(config, r)):
        return None
    windows = [min(window, 1 + r) for window in cycled(event.windows, real)]
    return windows + [1] * (count - real)


def whole_blocks(config: Config, r: int) -> bool:
    """Whether a step may be ragged: r = K in those (semantics, section 14)."""
    return config.confidence_scheduling and r == config.max_draft_len


def look(
    config: Config,
    event: Step,
    r: int,
    rows: Sequence[GenerationRow],
    seen: Callable[[int], Snapshot | None],
    sources: Sources,
) -> Look | None:
    """What the host makes of its snapshot in a step scheduled by confidence; None: it is not.

    rows: those of requests; seen: the snapshot of an age; sources: where the rows' confidences
    stand in it.
    """
    if event.age is None or event.windows or not whole_blocks(config, r):
        return None
    snapshot = seen(event.age)
    if snapshot is None:
        return Look(event.age)
    logits = [snapshot.logits[source] for source in sources(snapshot, rows)]
    confidences = calibrated(logits, config.sts_temperatures)
    budget = budget_of(config, event.budget, confidences)
    return Look(event.age, tuple(map(tuple, confidences)), budget)
