"""Batches that nobody may accept: `prepare` raises BatchError and changes nothing (section 3)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from draftproof.reference.vocabulary import PADDING_ID_BASE, Batch, Config, GenerationRow
from draftproof.sim.packing import hidden_rows


def refused(config: Config) -> Iterator[tuple[str, Batch]]:
    """Each with what is wrong about it."""
    most = config.max_num_requests
    yield (
        f"there are more than {most} rows",
        _batch([GenerationRow(PADDING_ID_BASE, 0, most, 0)] * (most + 1)),
    )
    if most > 1:
        yield (
            "an id stands twice in the batch",
            _batch([GenerationRow(7, 9, slot, 3) for slot in (0, 1)]),
        )


def _batch(rows: list[GenerationRow]) -> Batch:
    """A step without drafts."""
    return Batch(
        step=0,
        mode="eager",
        draft_len=0,
        contexts=(),
        generations=tuple(rows),
        drafts=array("q"),
        target_tokens=array("q", [1] * len(rows)),
        hidden=hidden_rows([(row.incarnation, row.position, 1) for row in rows], 0),
    )
