"""Recordings of a live engine, checked against the model (`docs/recordings.md`)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from draftproof.reference.config import lookup
from draftproof.reference.drafter import make_drafter
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import (
    IDLE_ID,
    PADDING_ID_BASE,
    Batch,
    BatchError,
    Collaborators,
    Config,
    ContextRow,
    GenerationRow,
    Worker,
    WorkerState,
)
from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import InjectedFault
from draftproof.sim.lockstep import MakeWorker
from draftproof.sim.packing import hidden_rows
from draftproof.sim.recording_file import RecordedRow, RecordedStep, load
from draftproof.sim.run import Faults

DIGITS = 128 * 128
"""Hidden rows hold incarnation and position modulo this (semantics, section 8a)."""


def validate(path: Path, make: MakeWorker = Model) -> int:
    """Drive a worker through a recording; returns the number of steps.

    Raises Divergence (expected: the worker's; found: the recording's) and FileError.
    """
    config, steps = load(path)
    faults, past = Faults(), _Past()
    worker = make(config, Collaborators(faults.at, make_drafter(config)))
    for index, step in enumerate(steps):
        try:
            _check_batch(config, step)
            past.check(step)
            faults.arm("draft" if step.failed else None)
            _drive(worker, config, index, step)
            for difference in _differences(worker.state(), step):
                raise difference
        except Divergence as divergence:
            divergence.step = index
            raise
        except BatchError as error:
            raise Divergence(
                "recordings", "batch", "a batch a worker accepts", str(error), index
            ) from error
        past.add(step)
    return len(steps)


def _check_batch(config: Config, step: RecordedStep) -> None:
    """What must hold of a recorded batch by itself."""
    r, expected = step.draft_len, lookup(config, len(step.rows))
    if config.draft_len_schedule is not None and r != expected:
        raise _mismatch("draft_len", expected, r)
    if r > config.max_draft_len:
        raise _mismatch("draft_len", f"at most {config.max_draft_len}", r)
    if step.mode == "replay" and step.contexts:
        raise _mismatch("contexts", "none in a replay", len(step.contexts), step.contexts[0].id)
    if step.mode == "eager" and step.num_padding:
        raise _mismatch("num_padding", "0 in an eager step", step.num_padding)
    ids = [row.id for row in step.rows]
    for request in ids:
        if ids.count(request) > 1:
            raise _mismatch("id", "once in a batch", f"{ids.count(request)} times", request)
    for row in step.generations:
        if (row.num_accepted is None) != step.failed:
            rule = "null exactly in a failed step"
            raise _mismatch("num_accepted", rule, row.num_accepted, row.id)
        if row.num_accepted is not None and not 1 <= row.num_accepted <= 1 + r:
            raise _mismatch("num_accepted", f"1..{1 + r}", row.num_accepted, row.id)


class _Past:
    """What the lines before say about the requests of a step."""

    def __init__(self) -> None:
        self.owners: dict[int, int] = {}  # incarnation -> id
        self.latest: dict[int, int] = {}  # id -> incarnation
        self.failed: set[int] = set()  # incarnations that a failed step ended
        self.rows: dict[tuple[int, int], RecordedRow] = {}  # (id, incarnation), in the last line

    def check(self, step: RecordedStep) -> None:
        """An incarnation is one request's and never comes back late; positions follow on."""
        for row in step.rows:
            if row.id != IDLE_ID:
                self._check_incarnation(row.id, row.incarnation)
        for context in step.contexts:
            first, held = context.first_position, self._held(context.id, context.incarnation)
            if first < 0 or (held is not None and context.length and first not in (0, held)):
                rule = "at least 0" if held is None else f"0 or {held}"
                raise _mismatch("first_position", rule, first, context.id)
        for row in step.generations:
            held = self._held(row.id, row.incarnation)
            if row.position < 0 or (held is not None and row.position != held):
                raise _mismatch(
                    "position", "at least 0" if held is None else held, row.position, row.id
                )

    def add(self, step: RecordedStep) -> None:
        """The step is over; if it failed, so did every request seen."""
        if step.failed:
            self.failed.update(self.owners)
        rows = step.state.rows.items()
        self.rows = {(request, self.latest.get(request, 0)): row for request, row in rows}

    def _check_incarnation(self, request: int, incarnation: int) -> None:
        owner = self.owners.setdefault(incarnation, request)
        if owner != request:
            rule = f"not {incarnation}, which is request {owner}'s"
        elif incarnation in self.failed:
            rule = f"not {incarnation}, which failed in an earlier step"
        elif incarnation < self.latest.get(request, 1):
            rule = f"at least {self.latest.get(request, 1)}"
        else:
            self.latest[request] = incarnation
            return
        raise _mismatch("incarnation", rule, incarnation, request)

    def _held(self, request: int, incarnation: int) -> int | None:
        """ctx_len after the last line, if that says anything about this request."""
        row = self.rows.get((request, incarnation))
        return row.ctx_len if row and row.initialized else None


def _drive(worker: Worker, config: Config, index: int, step: RecordedStep) -> None:
    batch = _batch(config, index, step)
    worker.prepare(batch)
    if step.mode == "warmup":  # in a recording: a prepare() with no forward
        return
    with suppress(InjectedFault):
        worker.forward(batch)


def _batch(config: Config, index: int, step: RecordedStep) -> Batch:
    """A batch in which every draft is 0 and the target agrees num_accepted - 1 times."""
    r, scratch = step.draft_len, config.max_num_requests
    contexts = [
        ContextRow(row.id, row.incarnation, 0, row.first_position, row.length)
        for row in step.contexts
    ]
    generations = [
        GenerationRow(row.id, row.incarnation, 0, row.position) for row in step.generations
    ]
    padding = [GenerationRow(PADDING_ID_BASE - r, 0, scratch, r)] * step.num_padding
    counts = [row.num_accepted or 1 for row in step.generations] + [1] * step.num_padding
    target = array("q", [1] * len(contexts))
    for count in counts:
        target.extend([0] * (count - 1) + [1] * (2 + r - count))
    rows = [*generations, *padding]
    spans = [(row.incarnation, row.first_position, row.length) for row in contexts]
    spans += [(row.incarnation, row.position, 1 + r) for row in rows]
    return Batch(
        step=index,
        mode="eager" if step.mode == "warmup" else step.mode,
        draft_len=r,
        contexts=tuple(contexts),
        generations=tuple(rows),
        drafts=array("q", [0] * (len(rows) * r)),
        target_tokens=target,
        hidden=hidden_rows(spans, index),
    )


def _differences(state: WorkerState, step: RecordedStep) -> Iterator[Divergence]:
    """Every way in which a recorded state is not the worker's, rows first, in batch order."""
    assert state.slots is not None and state.free_slots is not None
    recorded = step.state
    known = state.slots.keys() | recorded.rows.keys()
    in_order = [row.id for row in step.rows if row.id in known]
    for request in dict.fromkeys([*in_order, *sorted(known)]):
        if request not in recorded.rows:
            yield _mismatch("rows", f"slot {state.slots[request]}", "no row", request)
        elif request not in state.slots:
            yield _mismatch("rows", "no row", f"slot {recorded.rows[request].slot}", request)
        else:
            row, slot = recorded.rows[request], state.slots[request]
            if row.slot != slot:
                yield _mismatch("slot", slot, row.slot, request)
            if not step.failed:
                yield from _row_differences(state, slot, row, request)
    if list(state.free_slots) != recorded.free:
        yield _mismatch("free", list(state.free_slots), recorded.free)


def _row_differences(
    state: WorkerState, slot: int, row: RecordedRow, request: int
) -> Iterator[Divergence]:
    for name in ("ctx_len", "valid_len", "initialized"):
        expected, found = getattr(state, name)[slot], getattr(row, name)
        if expected != found:
            yield _mismatch(name, expected, found, request)
    last, count = state.ctx_len[slot], state.valid_len[slot]
    frames = range(last - count + 1, last + 1)
    if set(frames) != row.frames.keys():
        yield _mismatch("frames", list(frames), sorted(row.frames), request)
    for stage, rows in enumerate(state.windows[slot]):
        for frame, hidden in zip(frames, rows, strict=True):
            origin = (hidden[0] + 128 * hidden[1], hidden[2] + 128 * hidden[3])
            found = row.frames.get(frame)
            if found is None or origin != (found[0] % DIGITS, found[1] % DIGITS):
                difference = _mismatch("frames", list(origin), found, request)
                difference.frame, difference.stage = frame, stage
                yield difference


def _mismatch(
    field: str, expected: object, found: object, request: int | None = None
) -> Divergence:
    return Divergence("recordings", field, expected, found, request=request)
