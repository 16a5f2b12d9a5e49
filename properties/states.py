"""What must hold of the worker's state after a step: I1, I2, I3, I4, I19, I21."""

from __future__ import annotations

from typing import Any

from draftproof.properties.broken import broken
from draftproof.properties.guided import check_sequences
from draftproof.properties.history import History, RealRow
from draftproof.reference.vocabulary import NEUTRAL_LOGIT, Config, ContextRow, WorkerState

FIELDS = tuple(WorkerState.__dataclass_fields__)


def check_state(history: History, state: WorkerState) -> None:
    """The state after a step; after one that failed only its slot map. None is not checked."""
    if state.slots is None:
        return
    i1_map(history, state)
    if history.result is None:
        return
    i1_rows(history, state)
    i2_free(history.config, state)
    for real in history.real:
        _, row, life = real
        slot = state.slots[row.request_id]
        i4_counters(real, state, slot)
        i3_window(real, state, slot)
        if life.admitted:
            i2_admission(history, real, state, slot)
    if history.config.target_logits:
        check_sequences(history, state)


def i1_map(history: History, state: WorkerState) -> None:
    """Requests and slots are one to one; free + used = all. A failed step may lack its contexts."""
    assert state.slots is not None
    everybody = list(range(history.config.max_num_requests))
    used = list(state.slots.values())
    if len(set(used)) != len(used) or not set(used) <= set(everybody):
        broken("I1", "one slot per request", dict(state.slots))
    present = {row.request_id for _, row, _ in history.real}
    decoding = {row.request_id for _, row, _ in history.real if not isinstance(row, ContextRow)}
    needed = present if history.result is not None else decoding
    if history.prepared and not needed <= set(state.slots) <= present:
        broken("I1", sorted(needed), sorted(state.slots))
    if state.free_slots is not None and sorted([*used, *state.free_slots]) != everybody:
        broken("I1", f"used and free: {everybody}", sorted([*used, *state.free_slots]))


def i1_rows(history: History, state: WorkerState) -> None:
    """A row reads its request's slot; padding, idle and unknown rows, and new prompts, scratch."""
    batch, scratch = history.batch, history.config.max_num_requests
    assert batch is not None and state.slots is not None
    if state.batch_to_slot is None:
        return
    wanted = [scratch] * len(batch.rows)
    for b, row, life in history.real:
        if not (isinstance(row, ContextRow) and life.admitted):
            wanted[b] = state.slots[row.request_id]
    for b, row in enumerate(batch.rows):
        if state.batch_to_slot[b] != wanted[b]:
            broken("I1", f"slot {wanted[b]}", state.batch_to_slot[b], row=b, of=row)


def i2_free(config: Config, state: WorkerState) -> None:
    """A slot that nobody owns is as new, whoever had it: so is one that is given out."""
    new = {"ctx_len": 0, "valid_len": 0, "initialized": False, "windows": [[]] * config.num_stages}
    for name, wanted in new.items():
        values = getattr(state, name)
        for slot in state.free_slots or () if values is not None else ():
            if values[slot] != wanted:
                broken("I2", f"{name} {wanted}", values[slot], slot=slot)


def i2_admission(history: History, real: RealRow, state: WorkerState, slot: int) -> None:
    """Nothing is known about the confidence of a request that was admitted and has not drafted."""
    batch, (b, row, _) = history.batch, real
    assert batch is not None
    drafted = b >= len(batch.contexts) and batch.draft_len > 0
    if not drafted and state.confidence_logits is not None:
        found = list(state.confidence_logits[slot])
        if set(found) != {NEUTRAL_LOGIT}:
            broken("I2", f"confidence {NEUTRAL_LOGIT}", found, slot=slot, of=row)


def i4_counters(real: RealRow, state: WorkerState, slot: int) -> None:
    """The next block is anchored at the number of committed tokens before the bonus."""
    _, row, life = real
    if state.ctx_len is not None and state.ctx_len[slot] != life.last_frame:
        broken("I4", life.last_frame, state.ctx_len[slot], slot=slot, of=row)
    if state.initialized is not None and not state.initialized[slot]:
        broken("I4", "initialized", state.initialized[slot], slot=slot, of=row)


def i3_window(real: RealRow, state: WorkerState, slot: int) -> None:
    """Visible frames are this incarnation's committed positions, really fed; none is missing."""
    _, row, life = real
    visible = len(life.stages[0])
    if state.valid_len is not None and state.valid_len[slot] != visible:
        broken("I21", f"{visible} frames", state.valid_len[slot], slot=slot, of=row)
    if state.windows is None or state.windows[slot] == life.stages:
        return
    for stage, (wanted, found) in enumerate(zip(life.stages, state.windows[slot], strict=True)):
        if len(found) != visible:
            broken("I21", f"{visible} frames", len(found), stage=stage, slot=slot, of=row)
        for i, (want, got) in enumerate(zip(wanted, found, strict=True)):
            frame = life.last_frame - visible + 1 + i
            if want != got:
                broken("I3", want, got, stage=stage, frame=frame, slot=slot, of=row)


def i19_undone(before: WorkerState, after: WorkerState) -> None:
    """A warm-up or a capture, finished or failed, leaves no trace."""
    for name in FIELDS:
        was, now = getattr(before, name), getattr(after, name)
        if was != now:
            broken("I19", f"{name} as before: {was}", now)


def i19_untouched(config: Config, state: WorkerState) -> None:
    """Nor does one that comes before any other step: everything is as at the start."""
    rows, k = config.max_num_requests, config.max_draft_len
    start: dict[str, Any] = {
        "slots": {},
        "free_slots": list(range(rows)),
        "ctx_len": [0] * (rows + 1),
        "valid_len": [0] * (rows + 1),
        "initialized": [False] * (rows + 1),
        "windows": [[[]] * config.num_stages] * rows,
        "confidence_logits": [[NEUTRAL_LOGIT] * k] * (rows + 2),
        "confidence_stamp": [0] * (rows + 2),
        "draft_seq": 0,
    }
    for name, wanted in start.items():
        found = getattr(state, name)
        if found is not None and found != wanted:
            broken("I19", f"{name} as at the start: {wanted}", found)
