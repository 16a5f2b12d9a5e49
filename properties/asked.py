"""What the schedule asks for happens, and nothing else: who is served, who leaves, and why.

An invariant of the other files compares the engine with itself over time; here it is compared with
the events that it was given.
"""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.properties.broken import broken
from draftproof.properties.fed import graph_rows
from draftproof.reference.vocabulary import UNDONE, Batch, Config, WorkerState
from draftproof.sim.events import AnyEvent, Cancel, Pause, Recompute, Step, Submit
from draftproof.sim.journal import (
    Answered,
    Asked,
    Delivered,
    Departed,
    Entry,
    Fed,
    Lost,
    Restarted,
    Submitted,
)


class Schedule:
    """A watch over one run (`draftproof.sim.lockstep.Watch`).

    waiting, admitted: incarnations, in the order in which they came; pauses: steps that one of
    them is still to be left out of. served: those in the last batch; missing: those whose result
    was lost, who are served no more; how soon they are given up is `sim.liveness`'s affair. due:
    what has to happen before the next event.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.event: AnyEvent | None = None
        self.seen: set[int] = set()
        self.waiting: list[int] = []
        self.admitted: list[int] = []
        self.pauses: dict[int, int] = {}
        self.due: set[tuple[str, int]] = set()
        self.served: list[int] = []
        self.missing: set[int] = set()
        self.counts = self.failed = False

    def step(self, entries: Sequence[Entry], state: WorkerState | None) -> None:
        """See what the journal gained. Raises Divergence."""
        for entry in entries:
            if not isinstance(entry, Delivered):  # frequent, and no event asks for it
                self._see(entry)

    def _see(self, entry: Entry) -> None:
        if isinstance(entry, Asked):
            self._over()
            self._ask(entry.event)
        elif isinstance(entry, Submitted):
            self._happens("submitted", entry.incarnation)
            self.seen.add(entry.incarnation)
            self.waiting.append(entry.incarnation)
        elif isinstance(entry, Departed):
            self._depart(entry)
        elif isinstance(entry, Restarted):
            self._happens("restarted", entry.incarnation)
        elif isinstance(entry, Fed):
            self.counts = entry.batch.mode not in UNDONE
            if self.counts and isinstance(self.event, Step):
                self._served(entry.batch, self.event)
        elif isinstance(entry, Answered):
            self.failed = self.counts and entry.result is None
        elif isinstance(entry, Lost):
            self.missing.update(self.served)

    def _ask(self, event: AnyEvent) -> None:
        self.event = event
        if isinstance(event, Submit):
            if event.request + 1 not in self.seen:
                self.due.add(("submitted", event.request + 1))
        elif isinstance(event, Cancel | Pause | Recompute):
            incarnation = event.request + 1
            alive = incarnation in (*self.waiting, *self.admitted)
            if isinstance(event, Cancel) and alive:
                self.due.add(("cancelled", incarnation))
            elif isinstance(event, Pause) and alive:
                self.pauses[incarnation] = event.steps
            elif isinstance(event, Recompute) and incarnation in self.admitted:
                self.due.add(("restarted", incarnation))

    def _over(self) -> None:
        """The last event is over: what it asked for has happened; nobody survives a failed step."""
        if self.due:
            what, incarnation = min(self.due)
            broken("as asked", what, "still as before", incarnation=incarnation)
        if self.failed and self.admitted:
            broken("as asked", "all admitted failed", "one lives", incarnation=self.admitted[0])
        self.failed = False

    def _happens(self, what: str, incarnation: int) -> None:
        if (what, incarnation) not in self.due:
            broken("as asked", f"not {what}", what, incarnation=incarnation)
        self.due.discard((what, incarnation))

    def _depart(self, entry: Departed) -> None:
        own = entry.incarnation
        if entry.reason == "cancelled":
            self._happens("cancelled", own)
        fails = own in self.missing or (self.failed and own in self.admitted)
        if entry.reason == "failed" and not fails:
            broken("as asked", "not failed", "failed", incarnation=own)
        self.due.discard(("restarted", own))  # its last result came first, and ended it
        for group in (self.waiting, self.admitted):
            if own in group:
                group.remove(own)

    def _served(self, batch: Batch, event: Step) -> None:
        """First come, first admitted; everybody who is admitted and not paused is served."""
        free = self.config.max_num_requests - len(self.admitted)
        self.admitted += self.waiting[:free]
        del self.waiting[:free]
        ready = []
        for incarnation in self.admitted:
            if incarnation in self.missing:
                continue
            if self.pauses.get(incarnation):
                self.pauses[incarnation] -= 1
            else:
                ready.append(incarnation)
        self.served = served = sorted(row.incarnation for row in batch.rows if row.incarnation)
        if served != sorted(ready):
            broken("as asked", f"served: {sorted(ready)}", f"served: {served}")
        fits = graph_rows(self.config, batch, len(ready)) > 0
        mode = "replay" if event.graph and fits and not batch.contexts else "eager"
        if batch.rank_rows is None and batch.mode != mode:  # else: properties/ranks.py
            broken("as asked", mode, batch.mode)
