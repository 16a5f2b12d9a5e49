"""Runs a command in a process of its own, so that its death is a verdict, not the end."""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from types import FrameType
from typing import NoReturn

from draftproof.fuzz.failures import save_new
from draftproof.sim.errors import ImplementationError, UsageError
from draftproof.sim.traces import Trace, encode, load

CHILD = "DRAFTPROOF_CHILD"
"""Environment variable that tells the child that it is one."""


class Beacon:
    """Signs of life of a child: the case under way on disk, and a watchdog that cannot be blocked.

    A step that hangs in Python is ended by `sim.lockstep`; one that hangs in C code holding the
    interpreter's lock is ended, its stack left in a file, by the watchdog.
    """

    def __init__(self, path: Path, step_timeout: float) -> None:
        self.path = path
        self._home = Path.cwd()
        self._patience = 2 * step_timeout + 10
        self._armed = 0.0
        self._stack = _stack_path(path).open("w")

    def show(self, trace: Trace) -> None:
        """The next case begins."""
        self.path.write_bytes(encode(trace))

    def beat(self) -> None:
        """The next step begins."""
        now = monotonic()
        if now - self._armed > 1:  # arming costs a thread
            faulthandler.dump_traceback_later(self._patience, exit=True, file=self._stack)
            self._armed = now

    def rest(self) -> None:
        """No step will begin for a while."""
        faulthandler.cancel_dump_traceback_later()
        self._armed = 0.0

    def go_home(self) -> None:
        """Paths count from where the command began, wherever the implementation has gone."""
        os.chdir(self._home)

    def decide(self, code: int) -> None:
        """The exit code is known, whatever the implementation does as the process ends."""
        _verdict_path(self.path).write_text(str(code))

    def close(self) -> None:
        """The command has ended by itself."""
        faulthandler.cancel_dump_traceback_later()
        self._stack.close()
        _stack_path(self.path).unlink()


def _stack_path(path: Path) -> Path:
    """Where the watchdog leaves a stack; the file is there as long as the child has not ended."""
    return path.with_name("stack")


def _verdict_path(path: Path) -> Path:
    """Where the child leaves its exit code."""
    return path.with_name("verdict")


def leave(code: int) -> NoReturn:
    """End the process, though the implementation may have left threads that never end."""
    others = (thread for thread in threading.enumerate() if not thread.daemon)
    if any(thread is not threading.main_thread() for thread in others):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def supervised(
    arguments: argparse.Namespace, body: Callable[[argparse.Namespace, Beacon], int]
) -> int:
    """Run `body` in a child process and return its exit code.

    Raises ImplementationError (exit code 4) if the child died; the trace it was running is saved.
    Returns 1, with the trace saved too, if it hung beyond rescue.
    """
    own = os.environ.get(CHILD)
    if own is not None:
        beacon = Beacon(Path(own), arguments.step_timeout)
        try:
            code = body(arguments, beacon)
            beacon.decide(code)
            return code
        finally:
            beacon.close()
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "case.jsonl"
        command = [sys.executable, "-m", "draftproof.fuzz.cli", *arguments.argv]
        child = subprocess.Popen(command, env={**os.environ, CHILD: str(path)})
        with _ends_with_us(child):
            code = _wait(child)
        if _verdict_path(path).exists():
            return int(_verdict_path(path).read_text())
        if code >= 0 and not _stack_path(path).exists():  # it closed its beacon
            return code
        return _post_mortem(arguments.trace_dir, path, code)


def goes_wrong_alone(trace: Path, seconds: float) -> bool:
    """Whether a saved trace fails in a new process, where no other case was before it.

    Taken for granted if that takes longer, or somebody presses Ctrl-C.
    """
    command = [sys.executable, "-m", "draftproof.fuzz.cli", "replay", str(trace)]
    own = {name: value for name, value in os.environ.items() if name != CHILD}
    try:
        done = subprocess.run(command, env=own, capture_output=True, timeout=seconds)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        return True
    return done.returncode != 0


@contextmanager
def _ends_with_us(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Whoever ends the command (SIGTERM) ends its child as well, and the scratch folder goes."""

    def end(signum: int, frame: FrameType | None) -> None:
        child.kill()
        raise SystemExit(128 + signum)

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _wait(child: subprocess.Popen[bytes]) -> int:
    interrupted = False
    while True:
        try:
            code = child.wait()
        except KeyboardInterrupt:
            interrupted = True  # the child was interrupted too, and is writing its report
            continue
        if interrupted and code == -signal.SIGINT:
            raise KeyboardInterrupt  # it had not even begun
        return code


def _post_mortem(directory: Path, path: Path, code: int) -> int:
    stack = _stack_path(path).read_text() if _stack_path(path).exists() else ""
    where = "before its first case"
    if path.exists():
        try:
            saved = save_new(load(path), directory, "hang" if stack else "death")
            where = f"in the case saved as {saved}"
        except UsageError as error:  # what happened is told all the same
            where = f"in a case that cannot be saved: {error}"
    if stack:
        print(f"{stack}draftproof: the implementation hung {where}", file=sys.stderr)
        return 1
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    raise ImplementationError(f"the implementation's process died ({how}) {where}")
