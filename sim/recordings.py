"""Recordings of a live engine, checked against the model (`tests/data/recordings/README.md`)."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from draftproof.reference.config import checked, lookup
from draftproof.reference.drafter import make_drafter
from draftproof.reference.model import make as make_model
from draftproof.reference.vocabulary import (
    PADDING_ID_BASE,
    Batch,
    BatchError,
    Collaborators,
    Config,
    ConfigError,
    ContextRow,
    GenerationRow,
    Worker,
    WorkerState,
)
from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import FileError, InjectedFault
from draftproof.sim.packing import hidden_rows

FORMAT = "dspark-step-recording"
VERSION = 1

Count = Annotated[int, msgspec.Meta(ge=0)]
MakeWorker = Callable[[Config, str, Collaborators], Worker]


class _Strict(msgspec.Struct, forbid_unknown_fields=True):
    pass


class RecordedConfig(_Strict):
    """The worker's configuration; without a schedule, r was forced from outside."""

    block_size: int
    window_size: int
    num_stages: int
    max_num_requests: int
    draft_len_schedule: dict[int, int] | None


class _Header(_Strict):
    format: str
    version: int
    seed: int
    config: RecordedConfig


class RecordedContext(_Strict):
    """A prompt chunk."""

    id: Count
    incarnation: Count
    first_position: Count
    length: Count


class RecordedGeneration(_Strict):
    """A generation row; `num_accepted` counts the bonus, None if the step failed."""

    id: Count
    incarnation: Count
    position: Count
    num_accepted: Count | None


class RecordedRow(_Strict):
    """What the worker held for one request after the step."""

    slot: Count
    ctx_len: Count
    valid_len: Count
    initialized: bool
    frames: dict[int, tuple[Count, Count] | None]


class RecordedState(_Strict):
    """The worker's state after the step."""

    rows: dict[int, RecordedRow]
    free: list[Count]


class RecordedStep(_Strict):
    """One line of a recording."""

    event: Literal["step"]
    mode: Literal["eager", "replay", "warmup"]
    draft_len: Count
    contexts: list[RecordedContext]
    generations: list[RecordedGeneration]
    num_padding: Count
    failed: bool
    state: RecordedState


def load(path: Path) -> tuple[Config, list[RecordedStep]]:
    """Read a recording. Raises FileError for a torn, foreign or unknown file."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    if lines[-1] != b"":
        raise FileError(f"{path}: torn: the last line has no end")
    config = _load_header(path, lines[0])
    steps = []
    for number, line in enumerate(lines[1:-1], start=2):
        try:
            steps.append(msgspec.json.decode(line, type=RecordedStep))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise FileError(f"{path}, line {number}: not a step of a recording: {error}") from error
    return config, steps


def _load_header(path: Path, line: bytes) -> Config:
    try:
        loose = msgspec.json.decode(line)
        assert isinstance(loose, dict) and loose.get("format") == FORMAT
    except (msgspec.DecodeError, UnicodeDecodeError, AssertionError) as error:
        raise FileError(f"{path}: not a {FORMAT} file") from error
    if loose.get("version") != VERSION:
        raise FileError(
            f"{path}: version {loose.get('version')!r} of {FORMAT}; "
            f"this draftproof reads version {VERSION}"
        )
    try:
        recorded = msgspec.convert(loose, _Header, strict=False).config
        return checked(
            Config(
                max_draft_len=recorded.block_size,
                window_size=recorded.window_size,
                num_stages=recorded.num_stages,
                max_num_requests=recorded.max_num_requests,
                draft_len_schedule=_pairs(recorded.draft_len_schedule),
            )
        )
    except (msgspec.ValidationError, ConfigError) as error:
        raise FileError(f"{path}, line 1: {error}") from error


def _pairs(schedule: dict[int, int] | None) -> tuple[tuple[int, int], ...] | None:
    return None if schedule is None else tuple(schedule.items())


def validate(path: Path, make: MakeWorker = make_model) -> int:
    """Drive a worker through a recording; returns the number of steps.

    Raises Divergence (expected: the worker's; found: the recording's) and FileError.
    """
    config, steps = load(path)
    armed: list[str] = []

    def at(seam: str) -> None:
        if seam in armed:
            raise InjectedFault(seam)

    worker = make(config, "cpu", Collaborators(at=at, drafter=make_drafter(config)))
    known: dict[int, RecordedRow] = {}
    for index, step in enumerate(steps):
        try:
            _check_input(config, step, known)
            armed[:] = ["draft"] if step.failed else []
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
        known = {} if step.failed else step.state.rows
    return len(steps)


def _check_input(config: Config, step: RecordedStep, known: dict[int, RecordedRow]) -> None:
    """What must hold of a recorded batch itself: the schedule, the counts, the positions."""
    size = len(step.contexts) + len(step.generations)
    if config.draft_len_schedule is not None:
        if step.draft_len != lookup(config, size):
            raise _mismatch("draft_len", lookup(config, size), step.draft_len)
    elif step.draft_len > config.max_draft_len:
        raise _mismatch("draft_len", f"at most {config.max_draft_len}", step.draft_len)
    for row in step.generations:
        if (row.num_accepted is None) != step.failed:
            raise _mismatch(
                "num_accepted", "null exactly in a failed step", row.num_accepted, row.id
            )
        if row.num_accepted is not None and not 1 <= row.num_accepted <= 1 + step.draft_len:
            raise _mismatch("num_accepted", f"1..{1 + step.draft_len}", row.num_accepted, row.id)
        before = known.get(row.id)
        if before and before.initialized and row.position != before.ctx_len:
            raise _mismatch("position", before.ctx_len, row.position, row.id)


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
    """Every way in which a recorded state is not the worker's, slots first."""
    assert state.slots is not None and state.free_slots is not None
    recorded = step.state
    if list(state.free_slots) != recorded.free:
        yield _mismatch("free", list(state.free_slots), recorded.free)
    for request in sorted(state.slots.keys() | recorded.rows.keys()):
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
            if origin != row.frames.get(frame):
                difference = _mismatch("frames", list(origin), row.frames.get(frame), request)
                difference.frame, difference.stage = frame, stage
                yield difference


def _mismatch(
    field: str, expected: object, found: object, request: int | None = None
) -> Divergence:
    return Divergence("recordings", field, expected, found, request=request)
