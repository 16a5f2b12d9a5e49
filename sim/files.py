"""Files as a whole: read or refused with a sentence, written or left as they were."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from draftproof.sim.errors import FileError, UsageError

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding a line raises that does not hold what it should."""


MOST_BYTES = 256 << 20
"""Of any file; a device would never end."""


def read_whole(path: Path) -> bytes:
    """The bytes of a file. Raises FileError."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise FileError(f"{path}: more than {MOST_BYTES >> 20} MiB, which no file of ours has")
    return data


def decode_header(line: bytes, form: str, version: int, name: str) -> dict[str, Any]:
    """The first line of a file, which says of which format and version it is. Raises FileError."""
    try:
        header = msgspec.json.decode(line)
    except NOT_JSON as error:
        what = "torn within line 1, its header" if form.encode() in line else f"not a {form} file"
        raise FileError(f"{name}: {what}") from error
    if not isinstance(header, dict) or header.get("format") != form:
        raise FileError(f"{name}: not a {form} file")
    if (found := header.get("version")) != version:
        raise FileError(
            f"{name}: version {found!r} of {form}; this draftproof reads version {version}, "
            "so the file needs another one"
        )
    return header


def check_writable(directory: Path) -> None:
    """Raise UsageError, before any work is done, if nothing could be saved there."""
    probe = directory / f".probe.{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(f"{directory}: cannot be written: {error.strerror}") from error


def check_all_writable(files: Iterable[Path | None]) -> None:
    """The same for each file that is to be written in the end; None: it is not."""
    for file in files:
        if file is not None:
            check_writable(file.parent)
            if file.is_dir():
                raise UsageError(f"{file}: cannot be written: it is a folder; name a file")


def write_whole(data: bytes, path: Path) -> None:
    """Replace a file as a whole or not at all, whatever happens meanwhile."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
