"""Worker processes on this machine: one for each core, replaced when they die or grow too large."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from draftproof.fuzz.bench.campaign import resident
from draftproof.fuzz.campaign.chunks import Callbacks, Result, Task, work
from draftproof.fuzz.collector import calm_collector
from draftproof.fuzz.supervise import Beacon
from draftproof.sim.errors import DraftproofError, ImplementationError
from draftproof.sim.traces import Trace, encode, load

AHEAD = 2
"""Tasks that a process has been given; the second one waits, so that it is never idle."""
TRIES = 2
"""How often a task may cost a process its life; the first time somebody else may have killed it."""

DEATH, HANG = ("exception", "death"), ("hang", "watchdog")
"""Signatures of what no process survives."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A failing trace, told at once."""

    trace: bytes


Message = Result | Failed


@dataclass(slots=True)
class _Process:
    """One of them. folder: where it says which case it is at."""

    process: BaseProcess
    pipe: Connection
    folder: Path
    tasks: deque[Task] = field(default_factory=deque)


class Pool:
    """Runs tasks; to be used as a context, which ends all processes.

    memory: MiB of a process; one that has more after a task is replaced.
    """

    def __init__(self, workers: int, memory: int) -> None:
        self.workers, self.memory = workers, memory
        self.replaced = 0
        self._spawn = multiprocessing.get_context("spawn")
        self._scratch = TemporaryDirectory(prefix="draftproof-")
        self._processes: list[_Process] = []
        self._started = 0
        self._deaths: dict[int, int] = {}  # by the number of a task

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exception: object) -> None:
        for worker in self._processes:
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()
        self._processes.clear()
        self._scratch.cleanup()

    def run(self, tasks: Iterable[Task]) -> Iterator[Message]:
        """Messages as they come, not in the order of the tasks. Raises DraftproofError."""
        upcoming, again = iter(tasks), deque[Task]()
        self._deaths.clear()
        while True:
            self._hand_out(upcoming, again)
            busy = [worker for worker in self._processes if worker.tasks]
            if not busy:
                return
            for ready in wait([worker.pipe for worker in busy]):
                worker = next(worker for worker in busy if worker.pipe is ready)
                try:
                    message = worker.pipe.recv()
                except (EOFError, OSError):
                    yield from self._bury(worker, again)
                    continue
                if isinstance(message, _Error):
                    raise message.error()
                if isinstance(message, _Retired):
                    self._replace(worker, again)
                    continue
                if isinstance(message, Result):
                    worker.tasks.popleft()
                yield message

    def _hand_out(self, upcoming: Iterator[Task], again: deque[Task]) -> None:
        """Two tasks to each process; processes are started as there is something to do."""
        for round_ in range(1, AHEAD + 1):
            for index in range(self.workers):
                if index < len(self._processes) and len(self._processes[index].tasks) >= round_:
                    continue
                task = again.popleft() if again else next(upcoming, None)
                if task is None:
                    return
                if index >= len(self._processes):
                    self._processes.append(self._start(task.step_timeout))
                self._processes[index].tasks.append(task)
                self._send(self._processes[index], task)

    def _send(self, worker: _Process, task: Task) -> None:
        try:
            worker.pipe.send(task)
        except OSError:
            return  # it has died, as its own end of the pipe will tell

    def _start(self, step_timeout: float) -> _Process:
        folder = Path(self._scratch.name) / str(self._started)
        folder.mkdir()
        self._started += 1
        ours, theirs = self._spawn.Pipe()
        arguments = (theirs, str(folder / "case.jsonl"), step_timeout, self.memory)
        process = self._spawn.Process(target=_serve, args=arguments, daemon=True)
        # The child is not to see Ctrl-C from its first moment on; here it is only put off. The
        # resource tracker, which the first child needs, unblocks SIGINT as it starts.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        process.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        return _Process(process, ours, folder)

    def _replace(self, worker: _Process, again: deque[Task]) -> None:
        """Another process in its place; what it was given and has not done is done again."""
        worker.process.join()
        worker.pipe.close()
        again.extend(worker.tasks)
        self._processes.remove(worker)
        self.replaced += 1

    def _bury(self, worker: _Process, again: deque[Task]) -> Iterator[Message]:
        """A process has died. The task it was at gets one more try, then it counts as done."""
        task = worker.tasks[0]
        deaths = self._deaths[task.number] = self._deaths.get(task.number, 0) + 1
        case, stack = worker.folder / "case.jsonl", worker.folder / "stack"
        at_work = load(case) if case.exists() else None
        if deaths >= TRIES:
            if at_work is None:
                worker.process.join()
                code = worker.process.exitcode
                raise ImplementationError(f"a worker process died before its first case ({code})")
            hung = stack.exists() and stack.stat().st_size > 0
            worker.tasks.popleft()
            yield Failed(encode(_lethal(at_work, HANG if hung else DEATH)))
            yield Result(task.number)
        self._replace(worker, again)


def _lethal(trace: Trace, signature: tuple[str, str]) -> Trace:
    return msgspec.structs.replace(trace, failure=signature)


@dataclass(frozen=True, slots=True)
class _Retired:
    """A process has become too large and ends."""


@dataclass(frozen=True, slots=True)
class _Error:
    """A DraftproofError, which does not travel as it is."""

    kind: type[DraftproofError]
    text: str

    def error(self) -> DraftproofError:
        """As it was raised."""
        return self.kind(self.text)


def _serve(pipe: Connection, case: str, step_timeout: float, memory: int) -> None:
    """The life of a worker process. Ctrl-C is for the one that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with suppress(EOFError, OSError):  # the other end has died: nobody waits for an answer
        _answer(pipe, Beacon(Path(case), step_timeout), memory)


def _answer(pipe: Connection, beacon: Beacon, memory: int) -> None:
    tell = Callbacks(beacon.show, beacon.beat, lambda trace: pipe.send(Failed(trace)))
    calm = False
    while True:
        task = pipe.recv()
        try:
            result = work(task, tell)
        except DraftproofError as error:
            pipe.send(_Error(type(error), str(error)))
            return
        beacon.rest()
        pipe.send(result)
        if not calm:
            calm_collector()  # everything is imported by now
            calm = True
        if resident() > memory:
            pipe.send(_Retired())
            return
