"""Schedules written by hand, and what they lead to, in the fewest words."""

from __future__ import annotations

from draftproof.reference.vocabulary import Batch, Config
from draftproof.sim.engine import Engine
from draftproof.sim.events import AnyEvent, Recompute, Step, Submit, Warmup
from draftproof.sim.journal import Delivered, Departed, Fed
from draftproof.sim.run import MakeEngine, Run, replay


def play(config: Config, *events: AnyEvent, make_engine: MakeEngine = Engine) -> Run:
    """The run of a schedule that engine and model get through."""
    run = replay(config, events, make_engine)
    assert run.breakdown is None, str(run.breakdown)
    return run


def batches(run: Run) -> list[Batch]:
    return [expected.batch for expected in run.steps]


def contexts(batch: Batch) -> list[tuple[int, int, int]]:
    """(request id, first position, length) of each chunk."""
    return [(row.request_id, row.first_position, row.length) for row in batch.contexts]


def generations(batch: Batch) -> list[tuple[int, int, int]]:
    """(request id, position of the anchor, proposed drafts) of each generation."""
    return [(row.request_id, row.position, row.proposed) for row in batch.generations]


def ids(run: Run) -> list[list[int]]:
    """Request ids of every batch, in its order."""
    return [[row.request_id for row in batch.rows] for batch in batches(run)]


def draft_lens(run: Run) -> list[int]:
    return [batch.draft_len for batch in batches(run)]


def delivered(run: Run) -> list[tuple[int, int, int]]:
    """(step, incarnation, number of tokens) of every delivery."""
    entries = run.journal.entries
    return [(e.step, e.incarnation, len(e.tokens)) for e in entries if isinstance(e, Delivered)]


def output(run: Run, incarnation: int) -> list[int]:
    """All tokens that one incarnation was given."""
    return [
        token
        for entry in run.journal.entries
        if isinstance(entry, Delivered) and entry.incarnation == incarnation
        for token in entry.tokens
    ]


def departed(run: Run) -> list[tuple[int, str]]:
    """(incarnation, reason) of everybody who left."""
    entries = run.journal.entries
    return [(e.incarnation, e.reason) for e in entries if isinstance(e, Departed)]


def reserved(run: Run) -> list[tuple[int | None, ...]]:
    """Target KV rows reserved per row of every batch."""
    return [entry.reserved for entry in run.journal.entries if isinstance(entry, Fed)]


BUSY: tuple[AnyEvent, ...] = (
    Submit(0, prompt=3, limit=30),
    Submit(1, prompt=5, limit=30, imported=True),
    Step(),
    Step(accepts=(1, 2)),
    Warmup(),
    Submit(2, prompt=4, limit=30),
    Step(accepts=(3, 0)),
    Recompute(1),
    Step(accepts=(2,)),
    Step(accepts=(1,)),
)
"""Six forwards of three requests: prefill, import, mixed batches, a warm-up, a recompute."""
