"""What can go wrong in a step, where, and of what kind; the same for the model and for any worker.

A place is where it happens, a kind is what happens there. Places are those of `SEAMS`, which every
worker has, `OPTIONAL`, which one may lack, and `AROUND`, which are the harness's own.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from draftproof.reference.vocabulary import SEAMS, Batch
from draftproof.sim.errors import InjectedFault, InjectedHang, InjectedOutOfMemory

AROUND = ("target", "hidden", "start", "answer", "result")
"""In the target, so that `prepare` is all that the worker sees; hidden rows that the target did not
leave; before `prepare`; an answer of the target that cannot be; a result that does not arrive."""

OPTIONAL = ("assign", "stage", "sample", "drafted", "cleanup")
"""Further seams: in `prepare`, when the departed have left and before anybody gets a slot; before
each stage of the drafter; before drafts are drawn; when they are drawn, and those of contexts set;
in the clean-up behind a forward."""

PLACES = (*AROUND, *SEAMS, *OPTIONAL)

Kind = Literal[
    "exception", "memory", "hang", "double", "cancel", "missing", "token", "nan", "length", "lost"
]

RAISED: tuple[Kind, ...] = ("exception", "memory", "hang")
"""An exception; an allocation that fails; a step that the harness's timer ends, which is no
`Exception`. In campaigns it does so at once."""

DOUBLE: Kind = "double"
"""An exception, and another in the clean-up behind it; only the first may be seen."""

CORRUPT: tuple[Kind, ...] = ("token", "nan", "length")
"""A token that there is none of; a probability or logit that is not finite; a verify window outside
1 .. 1 + r. Where the step has no such number, another one is spoilt, and that is the kind then."""

SILENT: tuple[Kind, ...] = ("cancel", "lost")
"""The step goes on: a request is cancelled at that moment; its result never arrives."""


def kinds_at(place: str) -> tuple[Kind, ...]:
    """What can happen at a place; the first is what an event means that names another kind."""
    own: dict[str, tuple[Kind, ...]] = {
        "hidden": ("missing",),
        "answer": CORRUPT,
        "result": ("lost",),
        "start": (*RAISED, "cancel"),
        "target": (*RAISED, "cancel"),
        "assign": (*RAISED, "cancel"),
        "cleanup": (*RAISED, "cancel"),
    }
    return own.get(place, (*RAISED, DOUBLE, "cancel"))


SITES = tuple((place, kind) for place in PLACES for kind in kinds_at(place))
"""Every fault there is."""

REALS = ("target_logits", "target_probs")
"""What a number that is not finite is put into, the first that the step has."""

LATE = ("result", "late")
"""What is no fault of a step but told beside them: its result arrives when the next one is under
way (`Step.late`)."""


def normal(place: str | None, kind: str) -> Kind:
    """The kind of fault that an event means."""
    kinds = kinds_at(place or "")
    return next((known for known in kinds if known == kind), kinds[0])


class Faults:
    """One armed fault. fired: it happened, and kind is what did; first: what was raised.

    passing: called with every seam, before anything is raised there.
    """

    def __init__(self) -> None:
        self.passing: Callable[[str], object] = _nobody
        self.armed: str | None = None
        self.kind: Kind = "exception"
        self.fired = False
        self.first: BaseException | None = None
        self._passes = 0
        self._cancel: Callable[..., object] = _nobody

    def arm(
        self,
        place: str | None,
        kind: Kind = "exception",
        passes: int = 0,
        cancel: Callable[[], object] | None = None,
    ) -> None:
        """The next step has this fault; None: it has none. passes: of a seam that is met again and
        again, so many are let through, if there are so many; cancel: what "cancel" calls."""
        self.armed, self.kind, self.fired, self.first = place, kind, False, None
        self._passes = passes if place == "stage" else 0
        self._cancel = cancel or _nobody

    def forget(self) -> None:
        """Let go of all it knows. Workers know it, and are gone at once if it knows none of them,
        neither as whom it lets look on nor in what it raised: exceptions know who was at work."""
        self.arm(None)
        self.passing = _nobody

    def at(self, seam: str) -> None:
        """`Collaborators.at`; and what lies between its calls."""
        self.passing(seam)
        if self.fired:
            if self.kind == DOUBLE and seam == "cleanup":
                raise InjectedFault(seam)
            return
        if seam != self.armed:
            return
        if self._passes:
            self._passes -= 1
            return
        self.fired = True
        if self.kind == "cancel":
            self._cancel()
            return
        self.first = _raised(seam, self.kind)
        raise self.first

    def answer(self, batch: Batch, vocab_size: int) -> Batch:
        """What the forward is given of the target's; after a fault there, it has to refuse it."""
        if self.armed not in ("hidden", "answer"):
            return batch
        self.fired = True
        if self.armed == "hidden":
            return replace(batch, hidden=None)
        spoiled, self.kind = spoilt(batch, self.kind, vocab_size)
        return spoiled


def _nobody(*_: str) -> None:
    """Looks at nothing; and workers hear of a cancellation in the next `prepare` only."""


def _raised(seam: str, kind: str) -> BaseException:
    if kind == "hang":
        return InjectedHang(seam)
    return InjectedOutOfMemory(seam) if kind == "memory" else InjectedFault(seam)


def spoilt(batch: Batch, kind: Kind, vocab_size: int) -> tuple[Batch, Kind]:
    """The batch with one number that cannot be, and of which kind that is: the given one, if the
    step has such a number. Which number, and how it is wrong, depends on the step."""
    step, lens = batch.step, batch.verify_lens
    if kind == "length" and lens:
        g, wrong = step % len(lens), (0, -1, batch.draft_len + 2)[step % 3]
        return replace(batch, verify_lens=(*lens[:g], wrong, *lens[g + 1 :])), "length"
    for name in () if kind == "token" and batch.target_tokens else REALS:
        values = getattr(batch, name)
        if values:
            wrong_value = (float("nan"), float("inf"), float("-inf"))[step % 3]
            changed: dict[str, Any] = {name: _with(values, 7 * step, wrong_value)}
            return replace(batch, **changed), "nan"
    tokens = (vocab_size, -1, 2**40)[step % 3]
    return replace(batch, target_tokens=_with(batch.target_tokens, step, tokens)), "token"


def _with(values: array[Any], index: int, value: float) -> array[Any]:
    changed = values[:]
    changed[index % len(values)] = value
    return changed
