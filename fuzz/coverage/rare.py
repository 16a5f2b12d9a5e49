"""Rare points: what drivers are compared by (`docs/drivers.md`). Not part of the catalogue.

Half of them are long one-sided runs, half are long lives in which several things happen. The list
was fixed before any driver but the uniform one was written; the history, in which all of them came
in one commit, does not show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from draftproof.reference.vocabulary import UNDONE, ContextRow
from draftproof.sim.events import Pause, Step, Warmup
from draftproof.sim.journal import Answered, Asked, Delivered, Departed, Fed, Restarted, Submitted
from draftproof.sim.run import Expected, Run

RARE = {
    "twenty wait": "twenty requests wait at the same time",
    "twelve in chunks": "a request needs twelve prompt chunks",
    "ten zeros": "a request decodes ten times in a row without drafts, then with some",
    "ten wholes": "ten times in a row all of three drafts or more of a request are accepted",
    "six idle": "six idle steps in a row",
    "three cancels": "three requests leave between two steps, each with a result under way",
    "four warm-ups": "four warm-ups in a row",
    "three failures": "three steps in a row fail",
    "five lives": "an id has its fifth life",
    "four restarts": "a request starts again for the fourth time",
    "four pauses": "a request is left out for the fourth time",
    "eight generations": "eight requests leave in a row, each cancelled",
    "turbulent life": "a request starts again, is left out, has a gap in its drafts, is cancelled",
    "survivor": "a request comes to decode after two restarts and two pauses, and ends by a stop",
    "wrapped restart": "a request starts again whose last 8 frames are all accepted drafts",
    "full turnover": "all of four slots or more change hands in one step",
}  # fmt: skip
"""Each with what has to happen."""


@dataclass(slots=True)
class _Life:
    chunks: int = 0
    zeros: int = 0
    wholes: int = 0
    restarts: int = 0
    pauses: int = 0
    gap: bool = False
    positive: bool = False
    accepted: int = 0
    stop: int | None = None
    done: list[str] = field(default_factory=list)
    owed: bool = False


def rare_points(run: Run) -> dict[str, int]:
    """The rare points that a run hits, each with the step in which it first does."""
    watch, found = _Watch(), dict[str, int]()
    steps = iter(run.steps)
    for entry in run.journal.entries:
        if isinstance(entry, Fed):
            watch.step = next(steps, None)
            if watch.step is None:
                break
        for name in watch.see(entry):
            found.setdefault(name, max(0, watch.steps - 1))
    return found


class _Watch:
    def __init__(self) -> None:
        self.step: Expected | None = None
        self.steps = self.idle = self.failures = self.warmups = 0
        self.cancels = self.cancelled = 0
        self.waiting: set[int] = set()
        self.lives: dict[int, _Life] = {}
        self.names: dict[int, int] = {}  # id -> lives
        self.owners: dict[int, int] = {}

    def see(self, entry: object) -> Iterator[str]:
        """The points of one entry."""
        match entry:
            case Asked(event=Warmup()):
                self.warmups += 1
                if self.warmups == 4:
                    yield "four warm-ups"
            case Asked(event=event):
                self.warmups = 0
                if isinstance(event, Step):
                    self.cancels = 0
                if isinstance(event, Pause) and (life := self.lives.get(event.request + 1)):
                    life.pauses += 1
                    life.done.append("pause")
                    if life.pauses == 4:
                        yield "four pauses"
            case Submitted(incarnation=incarnation, event=event):
                self.lives[incarnation] = _Life(stop=event.stop)
                self.waiting.add(incarnation)
                self.names[entry.request_id] = self.names.get(entry.request_id, 0) + 1
                if self.names[entry.request_id] == 5:
                    yield "five lives"
                if len(self.waiting) == 20:
                    yield "twenty wait"
            case Departed(incarnation=incarnation, reason=reason):
                self.waiting.discard(incarnation)
                yield from self._departed(self.lives[incarnation], reason)
            case Restarted(incarnation=incarnation):
                yield from self._restarted(self.lives[incarnation])
            case Delivered(incarnation=incarnation, tokens=tokens):
                life = self.lives[incarnation]
                life.owed = False
                survived = life.restarts >= 2 and life.pauses >= 2
                if survived and life.stop is not None and life.stop in tokens:
                    yield "survivor"
            case Answered() if self.step is not None:
                yield from self._answered(self.step)
                self.steps += 1

    def _departed(self, life: _Life, reason: str) -> Iterator[str]:
        self.cancelled = self.cancelled + 1 if reason == "cancelled" else 0
        if self.cancelled == 8:
            yield "eight generations"
        if reason != "cancelled":
            return
        self.cancels += life.owed
        if self.cancels == 3 and life.owed:
            yield "three cancels"
        done = [step for step in life.done if step in ("restart", "pause", "gap")]
        if _in_order(("restart", "pause", "gap"), done):
            yield "turbulent life"

    def _restarted(self, life: _Life) -> Iterator[str]:
        life.restarts += 1
        life.done.append("restart")
        if life.restarts == 4:
            yield "four restarts"
        if life.accepted >= 8:
            yield "wrapped restart"
        life.chunks = life.zeros = life.wholes = life.accepted = 0
        life.owed = False

    def _answered(self, step: Expected) -> Iterator[str]:
        batch = step.batch
        if batch.mode in UNDONE:
            return
        real = [(b, row) for b, row in enumerate(batch.rows) if row.incarnation]
        self.idle = 0 if real else self.idle + 1
        self.failures = self.failures + 1 if step.result is None else 0
        if self.idle == 6:
            yield "six idle"
        if self.failures == 3:
            yield "three failures"
        self.waiting -= {row.incarnation for _, row in real}
        before, slots = self.owners, step.state.slots or {}
        self.owners = {slots[r.request_id]: r.incarnation for _, r in real if r.request_id in slots}
        changed = [s for s, owner in self.owners.items() if before.get(s, owner) != owner]
        if len(changed) >= 4 and len(changed) == len(step.state.windows):
            yield "full turnover"
        if step.result is None:
            return
        for b, row in real:
            life = self.lives[row.incarnation]
            life.owed = True
            if isinstance(row, ContextRow):
                life.chunks += 1
                if life.chunks == 12:
                    yield "twelve in chunks"
            else:
                yield from _decoded(life, batch.draft_len, step.result.new_tokens_lens[b] - 1)


def _decoded(life: _Life, r: int, accepted: int) -> Iterator[str]:
    if r and life.zeros >= 10:
        yield "ten zeros"
    if r and life.positive and life.zeros:
        life.done.append("gap")
    life.positive = life.positive or r > 0
    life.zeros = 0 if r else life.zeros + 1
    life.wholes = life.wholes + 1 if r >= 3 and accepted == r else 0
    life.accepted = life.accepted + accepted if accepted == r else 0
    if life.wholes == 10:
        yield "ten wholes"


def _in_order(wanted: tuple[str, ...], done: list[str]) -> bool:
    rest = iter(done)
    return all(name in rest for name in wanted)
