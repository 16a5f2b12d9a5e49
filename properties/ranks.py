"""What must hold across ranks: I12, and the agreements of sections 11 and 13.

A disagreement is told as the deadlock that it would be: who waits where, and for whom.
"""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.properties.broken import broken
from draftproof.properties.fed import captured
from draftproof.properties.windows import captured_shape
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
    """All ranks pad for one graph of one kind, or none does; idle ranks take any kind.

    A plan's windows are those of a bucket, if the configuration has any, whose total is then hit
    exactly on every rank.
    """
    real = [sum(row.incarnation > 0 for row in batch.rows) or 1 for batch in batches]
    able = [graph and not batch.contexts for graph, batch in zip(graphs, batches, strict=True)]
    follows = [_follows(config, batch) for batch in batches]
    kinds = {_kind(config, batch) for batch, idle in zip(batches, follows, strict=True) if not idle}
    kind = min(kinds, default="uniform")
    shapes = _shapes(config, batches, max(real), kind)
    everybody = all(able) and None not in shapes and len(kinds) < 2
    for rank, (batch, shape) in enumerate(zip(batches, shapes, strict=True)):
        wanted: tuple[object, ...] = (real[rank], "eager", None, "uniform")
        if everybody and shape is not None:
            wanted = (shape[0], "replay", shape[1], kind)
        found = (len(batch.rows), batch.mode, batch.verify_bucket, _kind(config, batch))
        judged = 4 if everybody or follows[rank] else 3  # else a busy rank's kind is its own
        if found[:judged] != wanted[:judged]:
            told = _told(*wanted[:judged])
            broken("I12", f"rank {rank}: {told}", _told(*found[:judged]), step=batch.step)
        bucket = batch.verify_bucket
        if bucket is not None and sum(batch.verify_lens or ()) != bucket:
            total = sum(batch.verify_lens or ())
            broken("I12", f"rank {rank}: {bucket} tokens", total, step=batch.step)


def _told(rows: object, mode: object, bucket: object, kind: object = None) -> str:
    more = kind if bucket is None else f"{bucket} tokens"
    return ", ".join(str(part) for part in (f"{rows} rows", mode, more) if part is not None)


def _follows(config: Config, batch: Batch) -> bool:
    """Whether it is an idle rank that drafts a whole block, as ragged steps do."""
    idle = not any(row.incarnation for row in batch.rows)
    return idle and config.confidence_scheduling and batch.draft_len == config.max_draft_len


def _kind(config: Config, batch: Batch) -> str:
    if batch.verify_budget is not None and config.verify_buckets:
        return "bucket"
    return "uniform" if batch.verify_lens is None else "ragged"


def _shapes(
    config: Config, batches: Sequence[Batch], rows: int, kind: str
) -> list[tuple[int, int | None] | None]:
    """The graph for each rank, by rows and bucket; None where there is none."""
    if kind == "bucket":
        steps = [(sum(r.incarnation > 0 for r in b.rows), b.verify_budget or 0) for b in batches]
        return [captured_shape(config, *steps)] * len(batches)
    fitting = [size for size in config.graph_batch_sizes if size >= rows]
    sizes = [
        next((n for n in fitting if captured(config, n, batch.draft_len)), None)
        for batch in batches
    ]
    return [None if size is None else (size, None) for size in sizes]


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
