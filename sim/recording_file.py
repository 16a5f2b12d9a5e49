"""The file format of a recording (`docs/recordings.md`): one header line, one line per step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from draftproof.reference.config import checked
from draftproof.reference.vocabulary import Config, ConfigError
from draftproof.sim.errors import FileError
from draftproof.sim.files import NOT_JSON, decode_header, read_whole

FORMAT = "dspark-step-recording"
VERSION = 1

Count = Annotated[int, msgspec.Meta(ge=0)]
Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]
"""What memory is set aside for: a damaged number must not fill it."""


class _Strict(msgspec.Struct, forbid_unknown_fields=True):
    pass


class RecordedConfig(_Strict):
    """The worker's configuration; without a schedule, r was forced from outside."""

    block_size: Size
    window_size: Size
    num_stages: Size
    max_num_requests: Size
    draft_len_schedule: dict[int, int] | None


class _Header(_Strict):
    format: str
    version: int
    seed: int
    config: RecordedConfig


class RecordedContext(_Strict):
    """A prompt chunk."""

    id: Count
    incarnation: int
    first_position: int
    length: Size


class RecordedGeneration(_Strict):
    """A generation row; `num_accepted` counts the bonus, None if the step failed."""

    id: Count
    incarnation: int
    position: int
    num_accepted: int | None


class RecordedRow(_Strict):
    """What the worker held for one request after the step.

    frames: visible frame -> (incarnation, position) of the hidden row there, None if unknown.
    """

    slot: int
    ctx_len: int
    valid_len: int
    initialized: bool
    frames: dict[int, tuple[int, int] | None]


class RecordedState(_Strict):
    """The worker's state after the step."""

    rows: dict[int, RecordedRow]
    free: list[int]


class RecordedStep(_Strict):
    """One line of a recording."""

    event: Literal["step"]
    mode: Literal["eager", "replay", "warmup"]
    draft_len: Size
    contexts: list[RecordedContext]
    generations: list[RecordedGeneration]
    num_padding: Size
    failed: bool
    state: RecordedState

    @property
    def rows(self) -> list[RecordedContext | RecordedGeneration]:
        """All rows but padding, in batch order."""
        return [*self.contexts, *self.generations]

    @property
    def token_rows(self) -> int:
        """Token rows that the target read in this step."""
        generations = len(self.generations) + self.num_padding
        return sum(row.length for row in self.contexts) + generations * (1 + self.draft_len)


def load(path: Path) -> tuple[Config, list[RecordedStep]]:
    """Read a recording. Raises FileError for a torn, foreign or unknown file."""
    lines = read_whole(path).split(b"\n")
    if lines[-1] != b"":
        raise FileError(f"{path}: torn: the last line has no end")
    config = _config(path, lines[0])
    steps = []
    for number, line in enumerate(lines[1:-1], start=2):
        try:
            steps.append(msgspec.json.decode(line, type=RecordedStep))
        except NOT_JSON as error:
            raise FileError(f"{path}, line {number}: not a step of a recording: {error}") from error
    if not steps:
        raise FileError(f"{path}: no step after the first line, so nothing to check")
    tokens = max(config.max_num_tokens, *(step.token_rows for step in steps))
    return replace(config, max_num_tokens=tokens), steps


def _config(path: Path, line: bytes) -> Config:
    header = decode_header(line, FORMAT, VERSION, str(path))
    try:
        recorded = msgspec.convert(header, _Header, str_keys=True).config
        return checked(
            Config(
                max_draft_len=recorded.block_size,
                window_size=recorded.window_size,
                num_stages=recorded.num_stages,
                max_num_requests=recorded.max_num_requests,
                draft_len_schedule=_pairs(recorded.draft_len_schedule),
                max_num_tokens=recorded.max_num_requests * (1 + recorded.block_size),
            )
        )
    except (msgspec.ValidationError, ConfigError) as error:
        raise FileError(f"{path}, line 1: {error}") from error


def _pairs(schedule: dict[int, int] | None) -> tuple[tuple[int, int], ...] | None:
    return None if schedule is None else tuple(schedule.items())
