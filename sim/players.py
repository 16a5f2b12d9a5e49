"""A worker that is led through a run, faults included, with nobody comparing anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from draftproof.reference.vocabulary import (
    BatchError,
    Collaborators,
    Config,
    StepResult,
    Worker,
    WorkerState,
)
from draftproof.sim.errors import INJECTED
from draftproof.sim.faults import Faults
from draftproof.sim.guide import lend
from draftproof.sim.packing import before_target, isolated
from draftproof.sim.run import Crossed as Crossed
from draftproof.sim.run import Expected

MakeWorker = Callable[[Config, Collaborators], Worker]


class Player:
    """A worker of its own, new at the start. crossed: its barrier calls in the last step."""

    def __init__(self, config: Config, make: MakeWorker) -> None:
        self.config = config
        self.crossed: list[Crossed] = []
        self._faults = Faults()
        lent = replace(lend(config, self._faults.at), barrier=self._barrier)
        self.worker = make(config, lent)

    def step(self, expected: Expected) -> StepResult | None:
        """One step, with its fault; None if it failed. Verify windows are those of the run."""
        faults, batch = self._faults, isolated(expected.batch)
        faults.arm(expected.fault, expected.kind, batch.step % self.config.num_stages)
        self.crossed = []
        try:
            faults.at("start")
            self.worker.prepare(before_target(batch))
            faults.at("target")
            return self.worker.forward(faults.answer(batch, self.config.vocab_size))
        except (*INJECTED, BatchError):
            return None

    def state(self) -> WorkerState:
        """What it shows."""
        return self.worker.state()

    def _barrier(self, stage: int, rows: int, counts: Sequence[int]) -> None:
        self.crossed.append((stage, rows, tuple(counts)))
