"""A process for each mutant: forked, bounded in time and memory, and gone with all it changed."""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import selectors
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any, Literal, NoReturn

from draftproof.fuzz.mutation.mutants import Mutant
from draftproof.fuzz.mutation.planting import PROJECT, module_name, plant
from draftproof.fuzz.mutation.scope import WORKER, Side

JUDGED = (f"{PROJECT}.gpu", "torch")
"""What must not judge model and engine."""
Fate = Literal["killed", "stillborn", "timed out", "survived"]
CASE_SECONDS, CPU_SECONDS = 10, 120
"""Of its own time for one case, of which the longest takes half a second, and for all; its own, so
that a busy machine does not look like a hang."""
WALL_SECONDS = 900
BYTES = 4 << 30
ENDED = (-signal.SIGPROF, -signal.SIGXCPU, -signal.SIGKILL)
"""How it ends when its time is over."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant. oracle: who objected, None if nobody did; steps: after how many.

    stillborn: it cannot be imported, made or called.
    """

    fate: Fate
    oracle: str | None = None
    steps: int = 0
    told: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """A mutant, None for the project as it is, and its judges; cases: those of `campaign`."""

    mutant: Mutant | None
    side: Side
    oracles: tuple[str, ...]
    cases: Any


Told = Callable[[int, Task, Verdict], None]
"""How many there are so far, and the last one."""


def judged(tasks: Sequence[Task], workers: int, told: Told = lambda *_: None) -> list[Verdict]:
    """The verdicts, in the order of the tasks; told: called with each as it comes."""
    gc.collect()
    gc.freeze()  # a child's collector must not touch, and so copy, what it only inherited
    verdicts: dict[int, Verdict] = {}
    waiting = iter(enumerate(tasks))
    running: dict[int, _Child] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while len(verdicts) < len(tasks):
                for index, task in _first(waiting, workers - len(running)):
                    running[index] = child = _Child(task)
                    selector.register(child.pipe, selectors.EVENT_READ, index)
                for key, _ in selector.select(timeout=1.0):
                    running[key.data].read()
                for index, child in list(running.items()):
                    if child.over():
                        selector.unregister(child.pipe)
                        verdicts[index] = running.pop(index).verdict()
                        told(len(verdicts), tasks[index], verdicts[index])
        finally:
            for child in running.values():
                child.kill()
    return [verdicts[index] for index in range(len(tasks))]


def _first(waiting: Iterator[tuple[int, Task]], count: int) -> Iterator[tuple[int, Task]]:
    for _ in range(count):
        task = next(waiting, None)
        if task is None:
            return
        yield task


class _Child:
    def __init__(self, task: Task) -> None:
        self.pipe, writing = os.pipe()
        self.deadline = monotonic() + WALL_SECONDS
        self._said, self._closed, self._late = b"", False, False
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if not self._pid:
            os.close(self.pipe)
            _child(task, writing)
        os.close(writing)

    def read(self) -> None:
        """Take in what it says, until it hangs up."""
        said = os.read(self.pipe, 1 << 16)
        self._said += said
        self._closed = not said

    def over(self) -> bool:
        """Whether there is nothing more to wait for."""
        self._late = self._late or monotonic() > self.deadline
        return self._closed or self._late

    def kill(self) -> int:
        """End it; returns how it ended."""
        if not self._closed:
            os.kill(self._pid, signal.SIGKILL)
        os.close(self.pipe)
        _, status = os.waitpid(self._pid, 0)
        return status

    def verdict(self) -> Verdict:
        """What it said, or what its end says."""
        status = self.kill()
        if self._closed and self._said:
            return Verdict(**json.loads(self._said))
        if self._late or os.waitstatus_to_exitcode(status) in ENDED:
            return Verdict("timed out", told=f"a case took more than {CASE_SECONDS} s of its own")
        return Verdict("killed", "process", told=f"the process died, status {status}")


def _child(task: Task, writing: int) -> NoReturn:
    """Judge one mutant and say so. Whatever happens in here ends in here."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
        gc.disable()  # its life is short, and its memory bounded
        _begins()
        os.write(writing, json.dumps(asdict(_judge(task))).encode())
    finally:
        os._exit(0)


def _begins() -> None:
    """Another case begins: that it ends in time is up to the kernel, whatever the mutant does."""
    signal.setitimer(signal.ITIMER_PROF, CASE_SECONDS)


def _judge(task: Task) -> Verdict:
    worker = task.side is WORKER
    renewed, forbidden = [f"{PROJECT}.gpu"] if worker else [PROJECT], [] if worker else JUDGED
    if task.mutant is None:
        plant("", None, renewed, forbidden)
    else:
        module, code = module_name(task.mutant.path), task.mutant.code()
        plant(module, code, renewed, forbidden)
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - a mutant may raise anything
            return Verdict("stillborn", told=f"{type(error).__name__}: {error}")
    try:
        oracles = importlib.import_module("draftproof.fuzz.mutation.oracles").ORACLES
    except Exception as error:  # noqa: BLE001 - the same, in a module that imports this one
        return Verdict("stillborn", told=f"{type(error).__name__}: {error}")
    about = task.mutant.path.stem if task.mutant is not None else ""
    for name in task.oracles:
        objection = oracles[name](task.cases, about, _begins)
        if objection is not None:
            fate: Fate = "stillborn" if objection.stillborn else "killed"
            return Verdict(fate, name, objection.steps, objection.told)
    return Verdict("survived")
