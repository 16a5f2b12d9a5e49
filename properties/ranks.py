"""What must hold across ranks: I12, and the agreements of sections 11 and 13.

A disagreement is told as the deadlock that it would be: who waits where, and for whom.
"""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.properties.broken import broken
from draftproof.properties.fed import captured
from draftproof.reference.vocabulary import UNDONE, Batch, Config
from draftproof.sim.divergence import Divergence
from draftproof.sim.players import Crossed

OPERATION = "draft MoE"


def check_round(config: Config, batches: Sequence[Batch], graphs: Sequence[bool]) -> None:
    """One forward of all ranks, as it was fed. graphs: whether each rank's step asks for one."""
    gathered(config, batches)
    if all(batch.mode not in UNDONE for batch in batches):
        padded(config, batches, graphs)


def gathered(config: Config, batches: Sequence[Batch]) -> None:
    """Everybody has the same row counts, and they are those of the batches as they are run."""
    k = config.max_draft_len
    drafted = tuple(len(batch.generations) * k if batch.draft_len else 0 for batch in batches)
    for rank, batch in enumerate(batches):
        if batch.rank_rows != drafted:
            broken("I12", f"rank {rank}: rows {drafted}", batch.rank_rows, step=batch.step)


def padded(config: Config, batches: Sequence[Batch], graphs: Sequence[bool]) -> None:
    """All ranks pad for the rank with the most rows, or none does."""
    real = [sum(row.incarnation > 0 for row in batch.rows) or 1 for batch in batches]
    able = [graph and not batch.contexts for graph, batch in zip(graphs, batches, strict=True)]
    sizes: list[int | None] = []
    for batch in batches:
        fitting = (size for size in config.graph_batch_sizes if size >= max(real))
        sizes.append(next((n for n in fitting if captured(config, n, batch.draft_len)), None))
    everybody = all(able) and None not in sizes
    for rank, batch in enumerate(batches):
        rows, mode = (sizes[rank], "replay") if everybody else (real[rank], "eager")
        if (len(batch.rows), batch.mode) != (rows, mode):
            found = f"{len(batch.rows)} rows, {batch.mode}"
            broken("I12", f"rank {rank}: {rows} rows, {mode}", found, step=batch.step)


def check_crossings(
    batches: Sequence[Batch], logs: Sequence[Sequence[Crossed]], stages: int
) -> None:
    """I12: the logs of one step agree, so that no rank would wait in vain.

    logs: of each rank, its calls of the barrier, in order.
    """
    for number in range(max(map(len, logs))):
        calls = [log[number] if number < len(log) else None for log in logs]
        if None in calls:
            _deadlock(batches[0].step, calls, number)
        places = {(stage, counts) for stage, _, counts in filter(None, calls)}
        if len(places) > 1:
            _deadlock(batches[0].step, calls, number)
        for rank, call in enumerate(calls):
            assert call is not None
            own = call[2][rank] if rank < len(call[2]) else None
            if call[1] not in (own, 1):
                wanted = f"rank {rank} brings {own} rows to stage {call[0]}, or the dummy"
                broken("I12", wanted, f"{call[1]} rows", "deadlock", step=batches[0].step)
    needed = stages if any(batches[0].rank_rows or ()) else 0
    for rank, log in enumerate(logs):
        if [stage for stage, *_ in log] != list(range(needed)):
            found = [stage for stage, *_ in log]
            wanted = f"rank {rank} crosses stages {list(range(needed))}"
            broken("I12", wanted, found, "deadlock", step=batches[0].step)


def _deadlock(step: int, calls: Sequence[Crossed | None], number: int) -> None:
    """Who waits where, and for whom."""
    told = []
    for rank, call in enumerate(calls):
        if call is None:
            told.append(f"rank {rank} never arrives")
        else:
            stage, _, counts = call
            told.append(f"rank {rank} waits at stage {stage} of the {OPERATION}, rows {counts}")
    wanted = f"all ranks at the same call, number {number} of the step"
    raise Divergence("deadlock", "I12", wanted, "; ".join(told), step=step)
