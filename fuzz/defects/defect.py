"""What a planted defect is."""

from __future__ import annotations

from dataclasses import dataclass

from draftproof.fuzz.cases import Subject
from draftproof.sim.engine import Engine
from draftproof.sim.loading import load
from draftproof.sim.run import MakeEngine


@dataclass(frozen=True, slots=True)
class Defect:
    """One planted fault.

    implementation: the faulty worker, None if the fault is in the engine; engine: the engine,
    faulty or not; live: it keeps requests from ever being done; reports: public reports that it
    resembles, by their ids in the list of them.
    """

    name: str
    sentence: str
    implementation: str | None = None
    engine: MakeEngine = Engine
    reports: tuple[str, ...] = ()
    live: bool = False

    @property
    def side(self) -> str:
        """Where the fault is: "worker" or "engine"."""
        return "engine" if self.implementation is None else "worker"

    def subject(self, device: str = "cpu") -> Subject:
        """What to test. Raises ImplementationError if torch is not here."""
        make = load(self.implementation, device) if self.implementation else None
        return Subject(make, self.engine, live=self.live)


def worker_defect(name: str, factory: str, reports: str, sentence: str) -> Defect:
    """A fault of `draftproof.gpu.defects.` factory; reports: their ids, with spaces between."""
    return Defect(name, sentence, f"draftproof.gpu.defects.{factory}", Engine, ids(reports))


def engine_defect(name: str, engine: MakeEngine, reports: str, sentence: str) -> Defect:
    """A fault of the serving engine."""
    return Defect(name, sentence, None, engine, ids(reports))


def ids(reports: str) -> tuple[str, ...]:
    """The words of it."""
    return tuple(reports.split())
