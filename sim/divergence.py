"""A failure, told to people: where, whose, what was expected and what was found."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import Any, Literal

Oracle = Literal[
    "comparison",
    "invariant",
    "plain decode",
    "recordings",
    "exception",
    "hang",
    "deadlock",
    "liveness",
]
"""Who can notice; the last two: ranks that would wait for each other, a request never done."""


@dataclass(slots=True)
class Divergence(Exception):
    """The first thing that went wrong in a run.

    oracle: who noticed; field: what differs, or the invariant, or the exception's type;
    step, event: index of the forward and of the event; row: index in the batch;
    whose: whom the place or the row found there belongs to.
    """

    oracle: Oracle
    field: str
    expected: Any = None
    found: Any = None
    step: int | None = None
    event: int | None = None
    request: int | None = None
    incarnation: int | None = None
    slot: int | None = None
    row: int | None = None
    stage: int | None = None
    frame: int | None = None
    position: int | None = None
    whose: str | None = None
    rank: int | None = None

    @property
    def exit_code(self) -> int:
        """How a command ends that finds this: 7 if a request is never done, else 1."""
        return 7 if self.oracle == "liveness" else 1

    @property
    def signature(self) -> tuple[str, str]:
        """What must stay the same for a shrunk trace to be the same failure."""
        return (self.oracle, self.field)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The report, one fact a line."""
        facts: list[tuple[str, Any]] = [
            ("found by", self.oracle),
            ("rank", self.rank),
            ("step", self.step),
            ("event", self.event),
            ("request", self.request),
            ("incarnation", self.incarnation),
            ("row", self.row),
            ("slot", self.slot),
            ("field", self.field),
            ("stage", self.stage),
            ("frame", self.frame),
            ("position", self.position),
        ]
        lines = [f"{name:<12} {value}" for name, value in facts if value is not None]
        lines.append(f"{'expected':<12} {self.expected}")
        lines.append(f"{'found':<12} {self.found}")
        if self.oracle in ("exception", "hang") and (place := raised_at(self.__cause__)):
            lines.append(f"{'raised at':<12} {place}")
        if self.whose:
            lines.append(f"{'whose':<12} {self.whose}")
        return lines


SHOWN_CALLS = 4
OURS = (
    contextlib.__file__,
    *(str(Path(__file__).with_name(name)) for name in ("lockstep.py", "blame.py")),
)
"""Where an implementation is called from, and told that its time is over."""


def raised_at(error: BaseException | None) -> str:
    """The innermost calls in which an exception was raised, outermost first; "" if not known."""
    if error is None:
        return ""
    calls = [call for call in extract_tb(error.__traceback__) if call.filename not in OURS]
    told = [f"{Path(call.filename).name}:{call.lineno} in {call.name}" for call in calls]
    return ", ".join(told[-SHOWN_CALLS:])
