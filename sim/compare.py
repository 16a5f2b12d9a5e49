"""What is compared after a step, and how a difference is told (semantics, section 18)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from draftproof.reference.vocabulary import (
    IDLE_ID,
    PADDING_ID_BASE,
    UNDONE,
    Batch,
    Config,
    Frames,
    StepResult,
    WorkerState,
)
from draftproof.sim.divergence import Divergence
from draftproof.sim.shapes import PLANNED, RESULT, STATE, Shape, listed, misshapen, nested

SHOWN = tuple(WorkerState.__dataclass_fields__)
"""The fields of the state; an implementation that cannot show one leaves it None."""


def describe_row(row: Sequence[float]) -> str:
    """Whom a stored hidden row belongs to, in words."""
    if any(component != component or component < 0 for component in row):
        return "nobody: a place that was never written"
    low = [int(component) for component in row]
    incarnation, position, step = (low[i] + 128 * low[i + 1] for i in (0, 2, 4))
    if not any(low):
        return "nobody: a cleared place"
    return f"incarnation {incarnation}, position {position}, fed in step {step}"


def result_difference(
    config: Config, batch: Batch, expected: StepResult, found: StepResult
) -> Divergence | None:
    """The first difference of two results, or None."""
    return _first(_result_differences(config, batch, expected, found), found, RESULT)


def windows_difference(batch: Batch, found: Any) -> Divergence | None:
    """The first verify window of a planned step that differs, or None; batch: as it was packed."""
    assert batch.verify_lens is not None
    differences = _rows(batch, "verify_lens", batch.verify_lens, nested(found))
    return _first(differences, SimpleNamespace(verify_lens=found), PLANNED)


def _first(
    differences: Iterator[Divergence], found: Any, shapes: Mapping[str, Shape]
) -> Divergence | None:
    """The first of them; if they cannot even be told, which field of what was found is misshapen.

    Raises whatever they raise for another reason.
    """
    try:
        return next(differences, None)
    except Exception:
        odd = misshapen(found, shapes)
        if odd is None:
            raise
        return odd


def _result_differences(
    config: Config, batch: Batch, expected: StepResult, found: StepResult
) -> Iterator[Divergence]:
    if expected.window_source != found.window_source:
        yield _difference("window_source", expected.window_source, found.window_source)
    counts = nested(found.new_tokens_lens)
    if counts != expected.new_tokens_lens:
        yield from _rows(batch, "new_tokens_lens", expected.new_tokens_lens, counts)
    tokens = nested(found.new_tokens)
    kept = [row[:n] for row, n in zip(tokens, counts, strict=False)]
    if kept != expected.new_tokens or len(tokens) != len(kept):
        yield from _rows(batch, "new_tokens", expected.new_tokens, kept)
        yield _difference("new_tokens", f"{len(kept)} rows", f"{len(tokens)} rows")
    dummies = (IDLE_ID, PADDING_ID_BASE - batch.draft_len)
    real = sum(row.request_id not in dummies for row in batch.rows)  # dummies come last
    for name in ("next_draft_tokens", "next_new_tokens"):
        wanted, got = getattr(expected, name), nested(getattr(found, name))
        if got[:real] != wanted[:real] or len(got) != len(wanted):
            yield from _rows(batch, name, wanted[:real], got[:real])
            yield _difference(name, f"{len(wanted)} rows", f"{len(got)} rows")
        for row in got[real:]:  # what stands for nobody is fed to the target all the same
            if not all(0 <= token < config.vocab_size for token in row):
                yield _difference(name, f"tokens within 0..{config.vocab_size - 1}", row)


def _rows(batch: Batch, field: str, expected: Sequence[Any], found: Any) -> Iterator[Divergence]:
    """The first row of a batch that differs, or a wrong number of rows."""
    rows = batch.rows
    for b, (want, got) in enumerate(zip(expected, found, strict=False)):
        if want != got:
            difference = _difference(field, want, got)
            difference.row = b
            difference.request = rows[b].request_id
            difference.incarnation = rows[b].incarnation
            yield difference
    if len(expected) != len(found):
        yield _difference(field, f"{len(expected)} rows", f"{len(found)} rows")


def state_difference(
    config: Config, batch: Batch, expected: WorkerState, found: WorkerState, failed: bool
) -> Divergence | None:
    """The first difference of two states after a step, or None.

    failed: only the slot map and the free queue are compared, until the next prepare().
    """
    return _first(_state_differences(config, batch, expected, found, failed), found, STATE)


def _state_differences(
    config: Config, batch: Batch, expected: WorkerState, found: WorkerState, failed: bool
) -> Iterator[Divergence]:
    assert expected.slots is not None
    if found.slots is not None:
        wanted, got = list(expected.slots.items()), list(found.slots.items())
        if wanted != got:
            yield _difference("slots", dict(wanted), dict(got))
    for name in ("free_slots", "attention_rows"):
        wanted, got = getattr(expected, name), listed(getattr(found, name))
        if got is not None and list(got) != wanted:
            yield _difference(name, wanted, list(got))
    if failed:
        return
    if found.batch_to_slot is not None and batch.mode not in UNDONE:
        rows = listed(found.batch_to_slot)[: len(expected.batch_to_slot)]
        contexts = len(batch.contexts)  # nobody reads theirs: seeding decides
        got = expected.batch_to_slot[:contexts] + rows[contexts:]
        if got != expected.batch_to_slot:
            yield from _rows(batch, "batch_to_slot", expected.batch_to_slot, got)
    owners = {slot: request_id for request_id, slot in expected.slots.items()}
    yield from _counter_differences(config, owners, expected, found)
    if found.windows is not None:
        yield from _window_differences(owners, expected, listed(found.windows))
    yield from _confidence_differences(config, owners, expected, found)
    if found.draft_seq is not None and found.draft_seq != expected.draft_seq:
        yield _difference("draft_seq", expected.draft_seq, found.draft_seq)
    yield from _sequence_differences(batch, expected, found)
    if found.draft_probs is not None:
        got = listed(found.draft_probs)
        yield from _probs_differences(batch, expected.draft_probs, got)


def _counter_differences(
    config: Config, owners: dict[int, int], expected: WorkerState, found: WorkerState
) -> Iterator[Divergence]:
    """Counters of slots exactly; of the scratch row only that they are bounded."""
    scratch = config.max_num_requests
    bounds = {"ctx_len": config.max_draft_len + 1, "valid_len": config.window_size}
    for name in ("ctx_len", "valid_len", "initialized"):
        got = listed(getattr(found, name))
        if got is None:
            continue
        wanted = getattr(expected, name)
        if got[:scratch] != wanted[:scratch] or len(got) != len(wanted):
            yield from _slots(owners, name, wanted[:scratch], got[:scratch])
            yield _difference(name, f"{len(wanted)} rows", f"{len(got)} rows")
        if name in bounds and not 0 <= got[scratch] <= bounds[name]:
            yield _slot_difference(
                name, {}, scratch, f"scratch row within 0..{bounds[name]}", got[scratch]
            )


def _window_differences(
    owners: dict[int, int], expected: WorkerState, found: Any
) -> Iterator[Divergence]:
    # Frames are compared as bytes; as lists that took longer than all other checks together.
    found = [[s if isinstance(s, Frames) else listed(s) for s in stages] for stages in found]
    slots = len(expected.windows)
    if found[:slots] == expected.windows and len(found) <= slots + 1:  # the scratch row's may come
        return
    if not slots <= len(found) <= slots + 1:
        wanted, got = f"{len(expected.windows)} slots", f"{len(found)} slots"
        yield _difference("windows", wanted, got)
    for slot, stages in enumerate(expected.windows):
        if found[slot] == stages:
            continue
        first = expected.ctx_len[slot] - expected.valid_len[slot] + 1
        if len(found[slot]) != len(stages):
            wanted, got = f"{len(stages)} stages", f"{len(found[slot])} stages"
            yield _slot_difference("windows", owners, slot, wanted, got)
        for stage, rows in enumerate(stages):
            if len(found[slot][stage]) != len(rows):
                yield _slot_difference(
                    "windows",
                    owners,
                    slot,
                    f"{len(rows)} frames",
                    f"{len(found[slot][stage])} frames",
                )
            for i, (want, got) in enumerate(zip(rows, found[slot][stage], strict=False)):
                if want != got:
                    difference = _slot_difference("windows", owners, slot, want, got)
                    difference.stage, difference.frame = stage, first + i
                    difference.whose = f"expected {describe_row(want)}; found {describe_row(got)}"
                    yield difference


def _confidence_differences(
    config: Config, owners: dict[int, int], expected: WorkerState, found: WorkerState
) -> Iterator[Divergence]:
    """Every row but the scratch one, the neutral row included."""
    scratch = config.max_num_requests
    for name in ("confidence_logits", "confidence_stamp"):
        got = listed(getattr(found, name))
        if got is None:
            continue
        wanted = getattr(expected, name)
        pairs = [(wanted[:scratch], got[:scratch]), (wanted[scratch + 1 :], got[scratch + 1 :])]
        for (want, have), offset in zip(pairs, (0, scratch + 1), strict=True):
            if want != have:
                yield from _slots(owners, name, want, have, offset)


def _probs_differences(batch: Batch, expected: Sequence[Any], found: Any) -> Iterator[Divergence]:
    """Rows that were written, by sequence slot; the others are unset."""
    owners = {row.seq_slot: row.request_id for row in batch.rows}
    if len(found) != len(expected):
        wanted, got = f"{len(expected)} sequence slots", f"{len(found)} sequence slots"
        yield _difference("draft_probs", wanted, got)
    for seq_slot, rows in enumerate(expected):
        if rows and found[seq_slot] != rows:
            yield _slot_difference("draft_probs", owners, seq_slot, rows, found[seq_slot])


def _sequence_differences(
    batch: Batch, expected: WorkerState, found: WorkerState
) -> Iterator[Divergence]:
    """What belongs to the requests of the last batch, by sequence slot; the rest is unspecified."""
    owners = {row.seq_slot: row.request_id for row in batch.rows}
    for name in ("token_counts", "prompt_seen", "grammar_depth"):
        wanted, got = getattr(expected, name), listed(getattr(found, name))
        if wanted is None or got is None:
            continue
        if len(got) != len(wanted):
            yield _difference(name, f"{len(wanted)} sequence slots", f"{len(got)} sequence slots")
        for seq_slot, want in enumerate(wanted):
            have = listed(got[seq_slot])
            if want is not None and have != want:
                difference = _slot_difference(name, {}, seq_slot, want, have)
                difference.request = owners.get(seq_slot)
                yield difference


def _slots(
    owners: dict[int, int], field: str, expected: Any, found: Any, offset: int = 0
) -> Iterator[Divergence]:
    for slot, (want, got) in enumerate(zip(expected, found, strict=False), start=offset):
        if want != got:
            yield _slot_difference(field, owners, slot, want, got)
    if len(expected) != len(found):
        yield _difference(field, f"{len(expected)} slots", f"{len(found)} slots")


def _slot_difference(
    field: str, owners: dict[int, int], slot: int, expected: Any, found: Any
) -> Divergence:
    difference = _difference(field, expected, found)
    difference.slot = slot
    difference.request = owners.get(slot)
    return difference


def _difference(field: str, expected: Any, found: Any) -> Divergence:
    return Divergence("comparison", field, expected, found)
