"""What became of the blocks of a run: what temperatures are fitted from (semantics, section 14)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from draftproof.reference.calibration import Outcome
from draftproof.reference.vocabulary import UNDONE, WorkerState
from draftproof.sim.run import Expected, Run


def outcomes(run: Run) -> list[Outcome]:
    """Every block of which a draft was verified, in the order in which that was answered.

    For `draftproof.reference.calibration.fit`. Placeholders are no drafts of the block, and
    neither a warm-up nor a failed step says anything.
    """
    found: list[Outcome] = []
    drafted: dict[int, Sequence[float]] = {}
    for step in run.steps:
        if step.batch.mode not in UNDONE:
            found += _verified(step, drafted)
            drafted = _drafted(step)
    return found


def _verified(step: Expected, drafted: dict[int, Sequence[float]]) -> Iterator[Outcome]:
    """The blocks that a step answers; drafted: their logits, by incarnation."""
    batch, result = step.batch, step.result
    if result is None:
        return
    for g, row in enumerate(batch.generations):
        window = 1 + batch.draft_len if batch.verify_lens is None else batch.verify_lens[g]
        own = min(row.proposed, window - 1)
        if own and row.incarnation in drafted:
            accepted = result.new_tokens_lens[len(batch.contexts) + g] - 1
            yield Outcome(tuple(drafted[row.incarnation]), own, min(accepted, own))


def _drafted(step: Expected) -> dict[int, Sequence[float]]:
    """The logits of the blocks that a step has drafted, by incarnation."""
    state: WorkerState = step.state
    if step.result is None or not step.batch.draft_len:
        return {}
    rows, slots = step.batch.generations, state.slots or {}
    return {
        row.incarnation: state.confidence_logits[slots[row.request_id]]
        for row in rows
        if row.incarnation and row.request_id in slots
    }
