"""Implementations that are wrong, or worse: the model, and something that happens in a forward.

Each factory is reached by path, as a user's own file would be.
"""

from __future__ import annotations

import atexit
import itertools
import os
import signal
import sys
import threading
import time
from collections import deque
from pathlib import Path
from tempfile import mkdtemp
from typing import ClassVar

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import (
    Batch,
    Collaborators,
    Config,
    ConfigError,
    StepResult,
    WorkerState,
)


class Base(Model):
    """The model behind the door."""

    def __init__(
        self, config: Config, device: str, collaborators: Collaborators, **options: str
    ) -> None:
        super().__init__(config, collaborators)
        self.options = options
        self.forwards = 0

    def forward(self, batch: Batch) -> StepResult:
        self.forwards += batch.mode != "warmup"
        if self.forwards == int(self.options.get("after", "3")):
            self.happen()
        return super().forward(batch)

    def happen(self) -> None:
        """In the third forward, or as the option says."""


class Leaks(Base):
    """Keeps 20 KiB of every forward for ever."""

    kept: ClassVar[list[bytes]] = []

    def forward(self, batch: Batch) -> StepResult:
        self.kept.append(b"x" * 20_480)
        return super().forward(batch)


class Wrong(Base):
    """Says that it counted one forward more."""

    extra = 0

    def happen(self) -> None:
        self.extra = 1

    def state(self) -> WorkerState:
        state = super().state()
        assert state.draft_seq is not None
        state.draft_seq += self.extra
        return state


class Raises(Base):
    def happen(self) -> None:
        raise RuntimeError("out of registers")


class Panics(Base):
    """As a library in another language does: what it raises is no Exception."""

    def happen(self) -> None:
        raise GeneratorExit("out of \ud800 registers")


class Wanders(Wrong):
    """Goes to another folder, and takes it away."""

    def happen(self) -> None:
        super().happen()
        gone = Path(mkdtemp())
        os.chdir(gone)
        gone.rmdir()


class HasTheLastWord(Wrong):
    """Decides itself how the process ends."""

    def happen(self) -> None:
        super().happen()
        atexit.register(os._exit, 0)


class LeavesAThread(Base):
    """One that never ends."""

    def happen(self) -> None:
        threading.Thread(target=time.sleep, args=(10**6,)).start()


class Exits(Base):
    def happen(self) -> None:
        sys.exit(int(self.options["code"]))


class Dies(Base):
    """Takes its process with it."""

    def happen(self) -> None:
        if "code" in self.options:
            os._exit(int(self.options["code"]))
        os.kill(os.getpid(), signal.SIGKILL)


class Sleeps(Base):
    """Hangs in Python."""

    def happen(self) -> None:
        time.sleep(3600)


class HoldsTheLock(Base):
    """Hangs in C, where no signal handler of Python's is ever run."""

    def happen(self) -> None:
        deque(itertools.repeat(0), maxlen=0)


class Refuses(Base):
    """Supports one stage only."""

    def __init__(self, config: Config, device: str, lent: Collaborators) -> None:
        if config.num_stages > 1:
            raise ConfigError("one stage only")
        super().__init__(config, device, lent)


class RefusesEverything(Base):
    def __init__(self, config: Config, device: str, lent: Collaborators) -> None:
        raise ConfigError("no window of this size")


class RefusesSlowly(Base):
    def __init__(self, config: Config, device: str, lent: Collaborators) -> None:
        time.sleep(0.03)  # a hundred times that is longer than the first line of progress waits
        raise ConfigError("no window of this size")


class ShowsLittle(Base):
    def state(self) -> WorkerState:
        return WorkerState(slots=super().state().slots)


class WrongThenSleeps(Wrong):
    """The first one that is made is wrong, the others hang."""

    made = 0

    def __init__(self, config: Config, device: str, lent: Collaborators) -> None:
        super().__init__(config, device, lent)
        WrongThenSleeps.made += 1

    def happen(self) -> None:
        if WrongThenSleeps.made > 1:
            time.sleep(3600)
        super().happen()


def broken(config: Config, device: str, collaborators: Collaborators) -> Base:
    """A factory that raises."""
    raise RuntimeError("no GPU here")


not_callable = 1
