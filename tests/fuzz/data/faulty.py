"""Implementations that are wrong, or worse: the model, and something that happens in a forward.

Each factory is reached by path, as a user's own file would be.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections import deque

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
        self.forwards += 1
        if self.forwards == int(self.options.get("after", "3")):
            self.happen()
        return super().forward(batch)

    def happen(self) -> None:
        """In the third forward, or as the option says."""


class Wrong(Base):
    """Miscounts its forwards."""

    def happen(self) -> None:
        self.draft_seq += 1


class Raises(Base):
    def happen(self) -> None:
        raise RuntimeError("out of registers")


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
