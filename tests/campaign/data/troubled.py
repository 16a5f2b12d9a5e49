"""Implementations with which a campaign has trouble; `path`: a file that remembers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import ClassVar

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Batch, Collaborators, Config, StepResult, WorkerState


class Sound(Model):
    """The model behind the door."""

    def __init__(self, config: Config, device: str, lent: Collaborators, path: str = "") -> None:
        super().__init__(config, lent)
        self.path = Path(path)

    def forward(self, batch: Batch) -> StepResult:
        self.happen(batch)
        return super().forward(batch)

    def happen(self, batch: Batch) -> None:
        """Before each forward."""


class DiesOnce(Sound):
    """Its process dies, but never again."""

    def happen(self, batch: Batch) -> None:
        if not self.path.exists():
            self.path.touch()
            os.kill(os.getpid(), signal.SIGKILL)


class DiesOfResets(Sound):
    """Its process dies whenever five rows or more are in a batch."""

    def happen(self, batch: Batch) -> None:
        if len(batch.rows) >= 5:
            os.kill(os.getpid(), signal.SIGKILL)


class Leaks(Sound):
    """Takes 256 KiB in each forward and never gives them back."""

    taken: list[bytearray] = []  # noqa: RUF012 - shared on purpose

    def happen(self, batch: Batch) -> None:
        self.taken.append(bytearray(b"x" * (1 << 18)))


class Slow(Sound):
    """Takes a twentieth of a second for a forward."""

    def happen(self, batch: Batch) -> None:
        time.sleep(0.05)


class Miscounts(Sound):
    """Has another draft_seq after a replay, another free queue when it is full."""

    replayed = False

    def happen(self, batch: Batch) -> None:
        self.replayed = batch.mode == "replay"

    def state(self) -> WorkerState:
        state = super().state()
        if self.replayed:
            state.draft_seq = -1
        elif not state.free_slots:
            state.free_slots = [0]
        return state


class MiscountsNowAndThen(Miscounts):
    """Does so in every third worker only, of those that a process makes, the third one first."""

    made: ClassVar[int] = 0

    def __init__(self, config: Config, device: str, lent: Collaborators, path: str = "") -> None:
        super().__init__(config, device, lent, path)
        MiscountsNowAndThen.made += 1
        self.sound = MiscountsNowAndThen.made % 3 > 0

    def state(self) -> WorkerState:
        return Model.state(self) if self.sound else super().state()


class MiscountsSlowly(Miscounts):
    """Does so too, and a chunk takes minutes."""

    def happen(self, batch: Batch) -> None:
        time.sleep(0.1)
        super().happen(batch)


class HangsInC(Sound):
    """Hangs where no signal reaches it, whenever five rows or more are in a batch."""

    def happen(self, batch: Batch) -> None:
        if len(batch.rows) >= 5:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
            time.sleep(1000)
