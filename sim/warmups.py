"""Forwards that leave no trace: their rows stand for nobody, whatever names they bear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from draftproof.reference.config import lookup, padded_size
from draftproof.reference.ragged import fill_bucket
from draftproof.reference.scheduler import limits_of
from draftproof.reference.vocabulary import Config, ContextRow, GenerationRow
from draftproof.sim.assembly import Rows
from draftproof.sim.events import Warmup

WARMUP_ID = 2**32
"""First id of the made-up requests of a warm-up, which nobody ever submits."""


def warmup_rows(
    config: Config, event: Warmup, step: int, live: Sequence[GenerationRow]
) -> tuple[Rows, int | None]:
    """What a warm-up or a capture is made of, and its token bucket; live: the admitted requests."""
    r, greedy = config.max_draft_len, not event.sampled
    if event.draft_len is not None:
        r = min(event.draft_len, r)
    elif event.capture:
        r = lookup(config, event.rows)
    size = padded_size(config, event.rows, r) if event.capture else None
    room, contexts = config.max_num_requests, []
    rows = [GenerationRow(WARMUP_ID + i, 0, i, 5, 0, greedy) for i in range(room)]
    if event.live:
        rows[: len(live)] = [
            replace(row, position=5, greedy=greedy, seed=0, told=0) for row in live
        ]
    if event.context and size is None:
        one = rows.pop(0)
        whose = one.request_id, one.incarnation, one.seq_slot
        chunk = ContextRow(*whose, 0, 2, greedy, one.grammar, one.penalties)
        contexts = [(chunk, 0)]
    count = size or min(event.rows, len(rows))
    bucket = _bucket(config, count) if size and event.ragged and r == config.max_draft_len else None
    made = Rows(
        step=step,
        mode="warmup" if size is None else "capture",
        draft_len=r,
        contexts=contexts,
        generations=rows[:count],
        tokens=[[1] * (1 + r)] * count,
        accepts=[r] * count,
        windows=_windows(config, bucket, count),
    )
    return made, bucket


def _bucket(config: Config, rows: int) -> int | None:
    """The largest token bucket of so many rows; None: there is none."""
    widest = limits_of(config).most + 1
    fitting = [size for size in config.verify_buckets if rows <= size <= rows * widest]
    return fitting[-1] if fitting else None


def _windows(config: Config, bucket: int | None, rows: int) -> list[int] | None:
    """Of a capture for planned steps: its graph serves all windows that fill the bucket."""
    if bucket is None:
        return None
    return fill_bucket([1] * rows, 0, bucket, limits_of(config).most + 1)
