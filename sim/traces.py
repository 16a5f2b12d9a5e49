"""Trace files: a configuration and its events, which determine everything else.

JSON lines: one header, then one event a line, so that a person can read and cut them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import msgspec

from draftproof.reference.config import checked
from draftproof.reference.vocabulary import Config, ConfigError
from draftproof.sim.errors import FileError
from draftproof.sim.events import AnyEvent
from draftproof.sim.files import NOT_JSON, decode_header, read_whole, write_whole
from draftproof.sim.rank_events import MOST_RANKS, EveryEvent, On, RankEvent, Together

FORMAT = "draftproof-trace"
VERSION = 1


class Trace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is needed to run a schedule again.

    implementation, options, device: as given to `draftproof check`; failure: oracle and field of
    the divergence it led to, if any; engine_defect: name of the planted engine defect, if any;
    ranks: how many there are, 0 for a schedule without ranks.
    """

    config: Config
    events: tuple[EveryEvent, ...]
    implementation: str = ""
    options: dict[str, str] = {}
    device: str = "cpu"
    failure: tuple[str, str] | None = None
    engine_defect: str | None = None
    ranks: int = 0

    @property
    def alone(self) -> tuple[AnyEvent, ...]:
        """The events of a schedule without ranks."""
        return tuple(event for event in self.events if not isinstance(event, On | Together))

    @property
    def together(self) -> tuple[RankEvent, ...]:
        """The events of a schedule for several ranks."""
        return tuple(event for event in self.events if isinstance(event, On | Together))


class _Header(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    format: str
    version: int
    num_events: int
    config: dict[str, Any]
    implementation: str = ""
    options: dict[str, str] = {}
    device: str = "cpu"
    failure: tuple[str, str] | None = None
    engine_defect: str | None = None
    ranks: Annotated[int, msgspec.Meta(ge=0, le=MOST_RANKS)] = 0


def encode(trace: Trace) -> bytes:
    """The bytes of a trace file; the same for the same trace, in any process."""
    default = Config(1, 1, 1, 1)
    config = {
        name: value
        for name, value in asdict(trace.config).items()
        if name in ("max_draft_len", "window_size", "num_stages", "max_num_requests")
        or value != getattr(default, name)
    }
    header = _Header(
        format=FORMAT,
        version=VERSION,
        num_events=len(trace.events),
        config=config,
        implementation=trace.implementation,
        options=dict(sorted(trace.options.items())),
        device=trace.device,
        failure=trace.failure,
        engine_defect=trace.engine_defect,
        ranks=trace.ranks,
    )
    lines = [msgspec.json.encode(header), *map(msgspec.json.encode, trace.events)]
    return b"\n".join(lines) + b"\n"


def decode(data: bytes, name: str) -> Trace:
    """Read the bytes of a trace file; `name` is for messages. Raises FileError."""
    lines = data.split(b"\n")
    header = _header(lines[0], name)
    if lines[-1] != b"" or len(lines) != header.num_events + 2:
        raise FileError(
            f"{name}: torn: its header announces {header.num_events} events, "
            f"but {max(0, len(lines) - 2)} whole lines follow"
        )
    events = []
    for number, line in enumerate(lines[1:-1], start=2):
        try:
            events.append(msgspec.json.decode(line, type=EveryEvent))
        except NOT_JSON as error:
            raise FileError(f"{name}, line {number}: not an event: {error}") from error
    unknown = header.config.keys() - Config.__dataclass_fields__.keys()
    if unknown:
        raise FileError(f"{name}, line 1: unknown configuration {sorted(unknown)}")
    try:
        config = checked(msgspec.convert(header.config, Config))
    except (msgspec.ValidationError, ConfigError) as error:
        raise FileError(f"{name}, line 1: {error}") from error
    return Trace(
        config=config,
        events=tuple(events),
        implementation=header.implementation,
        options=header.options,
        device=header.device,
        failure=header.failure,
        engine_defect=header.engine_defect,
        ranks=header.ranks,
    )


def _header(line: bytes, name: str) -> _Header:
    try:
        return msgspec.convert(decode_header(line, FORMAT, VERSION, name), _Header)
    except msgspec.ValidationError as error:
        raise FileError(f"{name}, line 1: {error}") from error


def load(path: Path) -> Trace:
    """Read a trace file. Raises FileError."""
    return decode(read_whole(path), str(path))


def save(trace: Trace, path: Path) -> None:
    """Write a trace file. Raises UsageError if it cannot."""
    write_whole(encode(trace), path)


def cut(trace: Trace, events: Sequence[EveryEvent]) -> Trace:
    """The same trace with other events."""
    return msgspec.structs.replace(trace, events=tuple(events))
