"""The invariants of semantics, section 17, over journal and states alone.

fed.py        what the engine may put into a batch
answered.py   what the worker may answer, and what of it may be handed to whom
states.py     what the worker may remember
guided.py     the same three about grammars and penalties
counted.py    what the engine may publish of all that, in numbers
relations.py  what two runs must have in common (I6, I10, I11); it runs a worker
"""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.properties.answered import check_delivery, check_departure, check_result
from draftproof.properties.counted import Counted
from draftproof.properties.fed import check_batch, check_submission, i13_delivered
from draftproof.properties.history import History
from draftproof.properties.states import check_state, i19_undone, i19_untouched
from draftproof.reference.vocabulary import UNDONE, Config, WorkerState
from draftproof.sim.events import Step
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


class Invariants:
    """A watch over one run (`draftproof.sim.lockstep.Watch`)."""

    def __init__(self, config: Config) -> None:
        self.history = History(config)
        self.counted = Counted(config.max_draft_len)
        self.before: WorkerState | None = None

    def step(self, entries: Sequence[Entry], state: WorkerState | None) -> None:
        """See what the journal gained, and the state after it. Raises Divergence."""
        for entry in entries:
            self._see(entry)
            self.counted.see(entry)
        if state is None:
            return
        batch = self.history.batch
        assert batch is not None
        if batch.mode not in UNDONE:
            check_state(self.history, state)
        elif self.before is None:
            i19_untouched(self.history.config, state)
        else:
            i19_undone(self.before, state)
        self.before = state

    def _see(self, entry: Entry) -> None:
        history = self.history
        if isinstance(entry, Delivered):  # the most frequent one comes first
            check_delivery(history, entry)
        elif isinstance(entry, Asked):
            if isinstance(entry.event, Step):
                history.late = entry.event.late
        elif isinstance(entry, Fed):
            history.feeding(entry.batch)
            check_batch(history, entry)
        elif isinstance(entry, Answered):
            self._answered(entry)
        elif isinstance(entry, Lost):
            history.withheld()
        elif isinstance(entry, Submitted):
            check_submission(history, entry)
        elif isinstance(entry, Departed):
            check_departure(history, entry)
        elif isinstance(entry, Restarted):
            history.lives[entry.incarnation].restarted()

    def _answered(self, entry: Answered) -> None:
        history = self.history
        assert history.batch is not None
        if history.batch.mode in UNDONE:
            return
        i13_delivered(history)
        history.flying = False
        history.result, history.prepared = entry.result, entry.prepared
        if entry.result is None:
            history.failed()
        else:
            check_result(history)
            history.answered()
