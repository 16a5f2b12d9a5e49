"""Goes through a run once and says which points of the catalogue it hits, and when.

It looks at events, journal and the states that the model should have; at no implementation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from draftproof.fuzz.coverage import moments
from draftproof.fuzz.coverage.abstract import Abstraction, Transition
from draftproof.fuzz.coverage.catalogue import MOST_DRAFTS, between, fault, name_of
from draftproof.fuzz.coverage.lives import Life
from draftproof.fuzz.coverage.matrix import about_rows
from draftproof.fuzz.coverage.owners import Owners
from draftproof.fuzz.coverage.sequences import CANCELLED, REUSED, Sequences
from draftproof.reference.vocabulary import UNDONE, Batch, ContextRow, GenerationRow, WorkerState
from draftproof.sim.events import Pause, Step, Warmup
from draftproof.sim.journal import (
    Answered,
    Asked,
    Delivered,
    Departed,
    Fed,
    Look,
    Restarted,
    Submitted,
)
from draftproof.sim.run import Expected, Run


@dataclass(slots=True)
class Observed:
    """What one run did: per point how often and first in which step; its transitions."""

    steps: int = 0
    hits: dict[str, int] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    transitions: set[Transition] = field(default_factory=set)


def observe(run: Run, steps: int | None = None) -> Observed:
    """The points and transitions of a run, or of its first `steps` forwards."""
    observer = _Observer(run)
    observer.go(run.steps if steps is None else run.steps[:steps])
    return observer.seen


class _Observer:
    def __init__(self, run: Run) -> None:
        self.run = run
        self.config = run.config
        self.seen = Observed()
        self.abstraction = Abstraction(run.config)
        self.lives: dict[int, Life] = {}  # by incarnation, departed ones too
        self.live: set[int] = set()
        self.asked: list[str] = []
        self.warmed: str | None = None  # the event before a warm-up that was just fed
        self.step: Expected | None = None
        self.last: Batch | None = None  # fed and not undone
        self.last_failed = False
        self.after_warmup = False
        self.state = WorkerState(slots={}, valid_len=[], ctx_len=[])
        self.owners = Owners(self.lives)
        self.sequences = Sequences()
        self.owed: set[int] = set()  # whose results were under way when the batch was built
        self.look: Look | None = None
        self.captured: set[tuple[int, int, bool]] = set()

    def hit(self, names: Iterable[str]) -> None:
        """Count points."""
        seen = self.seen
        for name in names:
            seen.hits[name] = seen.hits.get(name, 0) + 1
            seen.first.setdefault(name, seen.steps)

    def go(self, steps: list[Expected]) -> None:
        """All entries up to the last step; those behind it if the run is whole."""
        entries, upcoming = self.run.journal.entries, iter(steps)
        if len(steps) < len(self.run.steps):
            entries = entries[: steps[-1].entries if steps else 0]
        handlers = {
            Asked: self._asked,
            Submitted: self._submitted,
            Answered: lambda entry: self._answered(),
            Delivered: self._delivered,
            Departed: self._departed,
            Restarted: self._restarted,
        }
        for entry in entries:
            if isinstance(entry, Fed):
                self.step, self.look = next(upcoming, None), entry.look
                if self.step is None:
                    return  # engine and model broke down in this step
                self.owed = {i for i in self.live if self.lives[i].under_way is not None}
            elif (handler := handlers.get(type(entry))) is not None:
                handler(entry)  # type: ignore[operator]  # the table pairs each with its own

    # What is asked for, and who comes and goes

    def _asked(self, entry: Asked) -> None:
        name = name_of(entry.event)
        if self.warmed is not None:
            self.hit([between(self.warmed, name)])
            self.warmed = None
        self.asked.append(name)
        self.seen.transitions.add(self.abstraction.asked(name))
        if isinstance(entry.event, Pause) and (life := self.lives.get(entry.event.request + 1)):
            life.left_out = True

    def _submitted(self, entry: Submitted) -> None:
        life = self.lives[entry.incarnation] = Life.of(entry.request_id, entry.event)
        self.live.add(entry.incarnation)
        if entry.event.numbering != "small" and not entry.event.same_id:
            self.hit([f"id/{entry.event.numbering}"])
        earlier = self.owners.ids.get(life.request_id)
        if earlier is not None and self.lives[earlier[0]].under_way is not None:
            self.hit(["id/back before delivery"])
        if entry.event.imported:
            self.hit(["prompt/imported"])

    def _departed(self, entry: Departed) -> None:
        life = self.lives[entry.incarnation]
        self.live.discard(entry.incarnation)
        life.failed = entry.reason == "failed"
        if entry.reason == "cancelled":
            self.sequences.meanwhile(CANCELLED)
            late = life.under_way is not None and not life.left_out
            self.hit([f"cancel/{'before delivery' if late else 'while ' + life.phase}"])
        self.seen.transitions.add(self.abstraction.departed(entry.incarnation, entry.reason))

    def _restarted(self, entry: Restarted) -> None:
        life = self.lives[entry.incarnation]
        if life.step is not None:
            self.hit([f"recompute/while {life.phase}"])
        life.restart()
        if life.restarted == 2:
            self.hit(["recompute/twice"])
        self.abstraction.restarted(entry.incarnation)

    def _delivered(self, entry: Delivered) -> None:
        life = self.lives[entry.incarnation]
        if life.under_way == entry.step:
            life.under_way = None
        life.length += len(entry.tokens)
        emitted = life.length - life.event.prompt
        stopped = life.event.stop is not None and life.event.stop in entry.tokens
        if not stopped and emitted < life.event.limit:
            return
        step = next(s for s in reversed(self.run.steps) if s.batch.step == entry.step)
        b = [row.incarnation for row in step.batch.rows].index(entry.incarnation)
        assert step.result is not None
        answered = step.result.new_tokens_lens[b]
        place = "at the end" if answered == len(entry.tokens) else "inside"
        self.hit([f"finish/{'stop' if stopped else 'limit'} {place}"])
        if b < len(step.batch.contexts) and not life.restarted:
            self.hit(["finish/first token"])
        fed = self.step
        if fed is not None and fed.batch.step > entry.step and _has(fed.batch, entry.incarnation):
            self.hit(["overlap/end unheard of"])

    # What is fed

    def _answered(self) -> None:
        step = self.step
        if step is None:
            return
        if step.batch.mode in UNDONE:
            self._undone(step)
        else:
            self._done(step)
        self.seen.steps += 1

    def _undone(self, step: Expected) -> None:
        batch, event = step.batch, self.run.events[step.event]
        if step.fault is not None:
            self.hit(
                [fault(step.fault, moments.shape(batch)), f"fault/{step.kind} at {step.fault}"]
            )
        if isinstance(event, Warmup):
            running = any(self.lives[incarnation].step is not None for incarnation in self.live)
            self.hit(moments.about_warmup(batch, event, running))
        self.hit(self.sequences.ran(step))
        if len(self.asked) > 1:
            self.warmed = self.asked[-2]
        named = {
            "before the first step": self.last is None,
            "before delivery": any(self.lives[i].under_way is not None for i in self.live),
            "after a failure": self.last_failed and not self.after_warmup,
        }
        self.hit(f"warm-up/{name}" for name, true in named.items() if true)
        if batch.mode == "capture" and step.fault is None:
            if (key := _key(batch)) in self.captured:
                self.hit(["warm-up/capture again"])
            self.captured.add(key)
        self.after_warmup = True

    def _done(self, step: Expected) -> None:
        batch, event = step.batch, self.run.events[step.event]
        assert isinstance(event, Step)
        self.hit(moments.about_batch(self.config, batch, event))
        self.hit(moments.about_sampling(self.config, batch))
        self.hit(moments.about_logits(self.config, batch))
        if step.result is not None:
            self.hit(about_rows(self.config, batch))
        self.hit(self._neighbours(batch))
        if event.late and self.owed:
            self.hit(self._late(batch))
        if self.look is not None:
            self.hit(moments.about_look(self.look, event))
        if step.fault is not None:
            self.hit(self._failure(step, step.fault))
        self.hit(self.owners.identities(step, self._previous()))
        for b, row in enumerate(batch.rows):
            if row.incarnation:
                self.hit(self._row(step, b, row, event))
        self.hit(self.sequences.ran(step))
        slots = list(self.owners.slots_of(step, self._previous()))
        self.hit(slots)
        if any(name.startswith("slot/reused") for name in slots):
            self.sequences.meanwhile(REUSED)
        self.seen.transitions |= self.abstraction.step(step)
        admitted = any(self.lives[incarnation].step is not None for incarnation in self.live)
        if admitted and not any(row.incarnation for row in batch.rows):
            self.hit(["pause/everybody"])
        self.state, self.last = step.state, batch
        self.last_failed, self.after_warmup = step.result is None, False

    def _neighbours(self, batch: Batch) -> Iterator[str]:
        """What a step is, given the last one."""
        last, replayed = self.last, batch.mode == "replay"
        if replayed:
            known = _key(batch) in self.captured
            yield f"graph/replayed {'after its capture' if known else 'uncaptured'}"
            self.captured.add(_key(batch))
            if self.after_warmup:
                yield "graph/replayed after a warm-up"
        if last is None:
            return
        if replayed and self.last_failed:
            yield "graph/replayed after a failure"
        if last.mode == "replay":
            if not replayed:
                yield "graph/replayed, then eager"
            elif last.draft_len != batch.draft_len:
                yield "graph/replayed at another length"
            if replayed and len(last.generations) != len(batch.generations):
                yield "graph/replayed at another size"
        if self.config.use_rejection_sampling and last.generations and batch.generations:
            pair = (last.target_probs is not None, batch.target_probs is not None)
            if pair == (False, True):
                yield "sampling/greedy, then sampled"
            elif pair == (True, False):
                yield "sampling/sampled, then greedy"

    def _late(self, batch: Batch) -> Iterator[str]:
        yield "overlap/late step"
        if batch.contexts:
            yield "overlap/late step of a prompt"
        if batch.mode == "replay":
            yield "overlap/late replay"

    def _failure(self, step: Expected, place: str) -> Iterator[str]:
        batch = step.batch
        yield fault(place, moments.shape(batch))
        yield f"fault/{step.kind} at {place}"
        if step.result is not None:
            return  # a cancellation, or a result that is lost
        real = sum(row.incarnation > 0 for row in batch.rows)
        named = {
            "without drafts": not batch.draft_len,
            "twice": self.last_failed,
            "of many": real > 2,
            "with others waiting": any(self.lives[i].step is None for i in self._not_in(batch)),
        }
        yield from (f"failure/{name}" for name, true in named.items() if true)

    def _not_in(self, batch: Batch) -> set[int]:
        return self.live - {row.incarnation for row in batch.rows}

    def _previous(self) -> int | None:
        return None if self.last is None else self.last.step

    def _row(
        self, step: Expected, b: int, row: ContextRow | GenerationRow, event: Step
    ) -> Iterator[str]:
        """One request in a step; its life moves on."""
        life, batch = self.lives[row.incarnation], step.batch
        if life.left_out and life.step is not None and self._previous() != life.step:
            yield f"pause/while {'decoding' if life.decoding else 'prefilling'}"
        before, valid, _ = moments.frames_of(self.state, row.request_id)
        slot, _, last_frame = moments.frames_of(step.state, row.request_id)
        if not self.owners.owns(row.incarnation, before):
            before, valid = None, 0
        if isinstance(row, ContextRow):
            yield from moments.about_prompt(self.config, row, life, event)
            if life.restarted and not row.first_position and before is not None and step.result:
                yield f"slot/{'kept' if slot == before else 'moved'} by a reset"
            valid = valid if row.first_position else 0
            stored = row.length
        else:
            yield from self._decoding(batch, b - len(batch.contexts), life)
            stored = step.result.new_tokens_lens[b] if step.result else 0
        if step.result is not None and slot is not None:
            yield from moments.about_window(self.config, row, stored, valid, last_frame)
        if step.result is not None and isinstance(row, GenerationRow):
            yield from moments.about_acceptance(batch, b - len(batch.contexts), step.result)
        self._move_on(step, row, life)

    def _decoding(self, batch: Batch, g: int, life: Life) -> Iterator[str]:
        r, before = batch.draft_len, life.draft_len
        if before is not None and life.step == self._previous():
            if max(before, r) <= MOST_DRAFTS:
                yield f"length/{before}->{r}"
            if life.row != g:
                yield "batch/turned"
            if self.config.draft_len_schedule is not None and r > before:
                yield "length/scheduled rise"
        if life.drafts(r):
            yield "length/zero between positive"
        life.row = g

    def _move_on(self, step: Expected, row: ContextRow | GenerationRow, life: Life) -> None:
        life.step, life.left_out = step.batch.step, False
        if isinstance(row, ContextRow):
            life.chunks += 1
        last = not isinstance(row, ContextRow) or row.last
        life.under_way = step.batch.step if last and step.result is not None else None
        life.decoding = life.decoding or (last and step.result is not None)


def _has(batch: Batch, incarnation: int) -> bool:
    return any(row.incarnation == incarnation for row in batch.rows)


def _key(batch: Batch) -> tuple[int, int, bool]:
    """What a graph is captured for (semantics, section 11)."""
    return len(batch.generations), batch.draft_len, batch.all_greedy
