"""Planted defects that need long one-sided runs: each sleeps until steps of one kind came in a row.

The catalogue (`draftproof defects`) has none that needs so much, so these are planted for the
contest of the drivers alone, in the model, which is then compared with itself. Kinds and lengths
were fixed before any of them was looked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from draftproof.fuzz.cases import Subject
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import UNDONE, Batch, Collaborators, Config, WorkerState
from draftproof.sim.divergence import Divergence
from draftproof.sim.run import Run

Kind = Callable[[Batch | None, Batch], bool]
"""Whether a batch, given the one before it, goes on with a run."""

LENGTHS = (8, 16)
"""So many in a row wake a defect."""


def _requests(batch: Batch | None) -> frozenset[int]:
    rows = () if batch is None else batch.rows
    return frozenset(row.incarnation for row in rows) - {0}


def _idle(batch: Batch) -> bool:
    return batch.mode not in UNDONE and not _requests(batch)


def _steady(last: Batch | None, batch: Batch) -> bool:
    return _requests(last) == _requests(batch) and len(_requests(batch)) > 1


def _turnover(last: Batch | None, batch: Batch) -> bool:
    return bool(_requests(batch)) and not _requests(batch) & _requests(last)


KINDS: dict[str, tuple[str, Kind]] = {
    "warm-ups": ("warm-ups or captures", lambda last, batch: batch.mode in UNDONE),
    "idle": ("steps of nobody", lambda last, batch: _idle(batch)),
    "prompts": (
        "steps of prompts alone",
        lambda last, batch: bool(batch.contexts) and not batch.generations,
    ),
    "zeros": (
        "steps of generations alone, at r = 0",
        lambda last, batch: not (batch.draft_len or batch.contexts or not _requests(batch)),
    ),
    "replays": ("replays", lambda last, batch: batch.mode == "replay"),
    "steady": ("steps of the same requests, two at least", _steady),
    "turnover": ("steps of requests none of which was in the last one", _turnover),
}  # fmt: skip
"""Each with what comes in a row."""


@dataclass(frozen=True, slots=True)
class OneSided:
    """A defect that wakes behind `length` batches of a kind in a row."""

    kind: str
    length: int

    @property
    def name(self) -> str:
        """As it is told."""
        return f"{self.kind} {self.length}"

    @property
    def sentence(self) -> str:
        """What wakes it."""
        return f"{self.length} {KINDS[self.kind][0]} in a row"

    def make(self, config: Config, lent: Collaborators) -> Model:
        """The faulty worker: once awake, it has counted one forward too many."""
        return _Sleeper(self, config, lent)

    def found(self, run: Run) -> bool:
        """Whether checking a case finds it."""
        streak = _Streak(self)
        if not any(streak.see(step.batch) for step in run.steps):
            return False  # nothing can wake it, so there is nothing to check
        try:
            Subject(self.make).judge(run)
        except Divergence:
            return True
        return False


class _Streak:
    def __init__(self, defect: OneSided) -> None:
        self.goes_on, self.length = KINDS[defect.kind][1], defect.length
        self.last: Batch | None = None
        self.count = 0

    def see(self, batch: Batch) -> bool:
        """Whether the run is long enough with this one."""
        self.count = self.count + 1 if self.goes_on(self.last, batch) else 0
        self.last = batch
        return self.count >= self.length


class _Sleeper(Model):
    def __init__(self, defect: OneSided, config: Config, lent: Collaborators) -> None:
        super().__init__(config, lent)
        self.streak, self.awake = _Streak(defect), False

    def prepare(self, batch: Batch) -> None:
        super().prepare(batch)
        self.awake = self.streak.see(batch) or self.awake

    def state(self) -> WorkerState:
        return replace(super().state(), draft_seq=self.draft_seq + self.awake)


ONE_SIDED = tuple(OneSided(kind, length) for kind in KINDS for length in LENGTHS)
"""All of them."""
