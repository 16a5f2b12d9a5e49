"""Corrupted states: what a worker must not remember."""

from __future__ import annotations

from typing import Any

from draftproof.properties.history import History, RealRow
from draftproof.reference.vocabulary import UNDONE, ContextRow, WorkerState
from planted.facts import breaks

State = WorkerState


def _first(history: History) -> RealRow | None:
    """The first request of a step that was served."""
    undone = history.batch is None or history.batch.mode in UNDONE
    return history.real[0] if history.real and history.result is not None and not undone else None


def _owned(state: State) -> dict[int, int]:
    assert isinstance(state.slots, dict)
    return state.slots


def _free(state: State) -> list[int]:
    assert isinstance(state.free_slots, list)
    return state.free_slots


def _slot(state: State, real: RealRow) -> int:
    return _owned(state)[real[1].request_id]


# Who is where: I1


@breaks("I1", WorkerState)
def two_requests_in_one_slot(state: State, history: History) -> State | None:
    ids = list(_owned(state))
    if _first(history) is None or len(ids) < 2:
        return None
    _owned(state)[ids[0]] = _owned(state)[ids[1]]
    return state


@breaks("I1", WorkerState)
def a_request_in_the_scratch_row(state: State, history: History) -> State | None:
    real = _first(history)
    if real is None:
        return None
    _owned(state)[real[1].request_id] = history.config.max_num_requests
    return state


@breaks("I1", WorkerState)
def somebody_who_left_keeps_a_slot(state: State, history: History) -> State | None:
    if _first(history) is None or not _free(state):
        return None
    _owned(state)[9999] = _free(state).pop()
    return state


@breaks("I1", WorkerState)
def somebody_who_was_served_has_no_slot(state: State, history: History) -> State | None:
    real = _first(history)
    if real is None:
        return None
    _free(state).append(_owned(state).pop(real[1].request_id))
    return state


@breaks("I1", WorkerState)
def a_slot_that_is_neither_used_nor_free(state: State, history: History) -> State | None:
    if _first(history) is None or not _free(state):
        return None
    _free(state).pop()
    return state


@breaks("I1", WorkerState)
def a_slot_that_is_free_twice(state: State, history: History) -> State | None:
    if _first(history) is None or not _free(state):
        return None
    _free(state).append(_free(state)[0])
    return state


@breaks("I1", WorkerState)
def a_slot_lost_in_a_step_that_failed(state: State, history: History) -> State | None:
    failed = history.batch is not None and history.batch.mode not in UNDONE
    if not failed or history.result is not None or not _free(state):
        return None
    _free(state).pop()
    return state


@breaks("I1", WorkerState)
def a_decoding_request_lost_its_slot_when_its_step_failed(state: State, history: History) -> Any:
    failed = history.batch is not None and history.batch.mode not in UNDONE
    failed = failed and history.prepared  # before that nothing may have changed, which is I19
    if not failed or history.result is not None or not _owned(state):
        return None
    _, row, _ = history.real[-1]
    if isinstance(row, ContextRow) or row.request_id not in _owned(state):
        return None
    _free(state).append(_owned(state).pop(row.request_id))
    return state


@breaks("I1", WorkerState)
def a_generation_reads_the_scratch_row(state: State, history: History) -> State | None:
    if _first(history) is None or isinstance(history.real[-1][1], ContextRow):
        return None
    state.batch_to_slot[history.real[-1][0]] = history.config.max_num_requests
    return state


@breaks("I1", WorkerState)
def a_dummy_row_reads_slot_0(state: State, history: History) -> State | None:
    batch = history.batch
    if history.result is None or batch is None or len(history.real) == len(batch.rows):
        return None
    state.batch_to_slot[-1] = 0
    return state


@breaks("I1", WorkerState)
def a_new_prompt_reads_its_slot_too_soon(state: State, history: History) -> State | None:
    real = _first(history)
    if real is None or not isinstance(real[1], ContextRow) or not real[2].admitted:
        return None
    state.batch_to_slot[0] = _slot(state, real)
    return state


# As new: I2


def not_as_new(field: str, value: Any) -> None:
    @breaks("I2", WorkerState, field)
    def a_free_slot_that_remembers(state: State, history: History) -> State | None:
        if _first(history) is None or not _free(state):
            return None
        getattr(state, field)[_free(state)[0]] = value
        return state


for _field, _value in (("ctx_len", 1), ("valid_len", 1), ("initialized", True)):
    not_as_new(_field, _value)


@breaks("I2", WorkerState)
def a_free_slot_with_a_frame(state: State, history: History) -> State | None:
    if _first(history) is None or not _free(state):
        return None
    state.windows[_free(state)[0]] = [[[0] * 7]] * history.config.num_stages
    return state


@breaks("I2", WorkerState)
def a_new_request_with_the_confidence_of_the_last_one(state: State, history: History) -> Any:
    real = _first(history)
    if real is None or not isinstance(real[1], ContextRow) or not real[2].admitted:
        return None
    slot = _slot(state, real)
    state.confidence_logits[slot] = [1.0] * history.config.max_draft_len
    return state


# The window: I3, I4, I21


@breaks("I4", WorkerState)
def a_counter_one_too_far(state: State, history: History) -> State | None:
    real = _first(history)
    if real is None:
        return None
    state.ctx_len[_slot(state, real)] += 1
    return state


@breaks("I4", WorkerState)
def a_position_that_is_not_initialized(state: State, history: History) -> State | None:
    real = _first(history)
    if real is None:
        return None
    state.initialized[_slot(state, real)] = False
    return state


@breaks("I21", WorkerState)
def a_frame_too_many_counted(state: State, history: History) -> State | None:
    real = _first(history)
    if real is None:
        return None
    state.valid_len[_slot(state, real)] += 1
    return state


@breaks("I21", WorkerState)
def a_frame_that_is_missing(state: State, history: History) -> State | None:
    real = _first(history)
    if real is None:
        return None
    stages = state.windows[_slot(state, real)]
    stages[-1] = stages[-1].tolist()[1:]
    return state


@breaks("I3", WorkerState)
def two_frames_in_the_wrong_order(state: State, history: History) -> State | None:
    real = _first(history)
    if real is None or len(real[2].stages[0]) < 2:
        return None
    stages = state.windows[_slot(state, real)]
    stages[-1] = stages[-1].tolist()[::-1]
    return state


def strange_row(component: int, what: str) -> None:
    @breaks("I3", WorkerState, what)
    def a_frame_of_another(state: State, history: History) -> State | None:
        real = _first(history)
        if real is None:
            return None
        stages = state.windows[_slot(state, real)]
        rows = stages[-1].tolist()
        rows[-1][component] += 1
        stages[-1] = rows
        return state


for _component, _what in ((0, "request"), (2, "position"), (4, "step"), (6, "stage")):
    strange_row(_component, _what)


# Steps that leave no trace: I19


def traced(field: str) -> None:
    @breaks("I19", WorkerState, field)
    def a_warmup_that_leaves_a_trace(state: State, history: History) -> State | None:
        if history.batch is None or history.batch.mode not in UNDONE:
            return None
        value = getattr(state, field)
        if value is None:
            return None  # of another configuration
        if isinstance(value, dict):
            value[9999] = 0
        elif isinstance(value, list):
            value.append(value[-1] if value else 0)
        else:
            setattr(state, field, value + 1)
        return state


for _field in WorkerState.__dataclass_fields__:
    traced(_field)
