"""An append-only record of what really happened, for the oracles that do not trust the engine.

Both sides of the lockstep get the batch that the engine built, so lockstep cannot see the engine's
own mistakes. The journal holds facts only: what the schedule asked for, what was submitted, what
was fed (the batch itself), what the worker answered, what was delivered to whom, who left.
Invariants are computed from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from draftproof.reference.vocabulary import Batch, StepResult
from draftproof.sim.events import AnyEvent, Submit
from draftproof.sim.statistics import Statistics


@dataclass(frozen=True, slots=True)
class Asked:
    """An event begins; everything up to the next one follows from it. Not written by the engine."""

    event: AnyEvent


@dataclass(frozen=True, slots=True)
class Submitted:
    """A request came: under which id, as which incarnation, and what was asked for."""

    request_id: int
    incarnation: int
    event: Submit


@dataclass(frozen=True, slots=True)
class Look:
    """What the host had for a step scheduled by confidence.

    age: how many steps older its snapshot was than the drafts; confidences: of each request that
    decodes, c_k per position, as the snapshot has them, None if it was not ready; budget: drafts to
    verify above the fewest.
    """

    age: int
    confidences: tuple[tuple[float, ...], ...] | None = None
    budget: int = 0


@dataclass(frozen=True, slots=True)
class Fed:
    """A batch went to the worker; reserved: target KV rows per row of the batch, dummies None.

    look: None unless the step was scheduled by confidence.
    """

    batch: Batch
    reserved: tuple[int | None, ...]
    look: Look | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """The worker answered the batch fed last; None: it failed. prepared: `prepare` was passed."""

    result: StepResult | None
    prepared: bool = True


@dataclass(frozen=True, slots=True)
class Lost:
    """The answer to the batch fed last will never arrive. Not written by the engine alone."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """Tokens of the answer to `step` were handed to a request; kept: KV rows afterwards."""

    step: int
    request_id: int
    incarnation: int
    tokens: tuple[int, ...]
    kept: int


@dataclass(frozen=True, slots=True)
class Departed:
    """A request left for good: "finished", "cancelled" or "failed"."""

    incarnation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Restarted:
    """A request will be computed again from position 0."""

    incarnation: int


@dataclass(frozen=True, slots=True)
class Published:
    """The engine's statistics, when everything has been delivered."""

    statistics: Statistics


Entry = Asked | Submitted | Fed | Answered | Lost | Delivered | Departed | Restarted | Published


@dataclass(slots=True)
class Journal:
    """The entries, in order."""

    entries: list[Entry] = field(default_factory=list)

    def write(self, entry: Entry) -> None:
        """Append one entry."""
        self.entries.append(entry)
