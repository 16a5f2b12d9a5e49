"""What a worker's attention is set up for while it drafts, which no state behind a step shows."""

from __future__ import annotations

from typing import Any

from draftproof.reference.attention import drafter_rows
from draftproof.reference.vocabulary import Batch, Worker
from draftproof.sim.divergence import Divergence

ATTENTION = "attention while drafting"
"""What is not checked of a worker that has no `attention_now`, or no seam at which it is asked."""

ASKED = ("stage", "sample")
"""Seams at which the drafter is about to run."""


class Drafting:
    """Asks the worker at each seam of `ASKED`; a difference is told behind the step, since the
    worker may swallow what is raised at a seam.

    block: K.
    """

    def __init__(self, worker: Worker, block: int) -> None:
        self._ask = getattr(worker, "attention_now", None)
        self._block = block
        self._wanted: list[int] | None = None
        self._asked = False
        self._found: Divergence | None = None

    def begin(self, batch: Batch) -> None:
        """A step begins. Steps that draft nothing have no seam worth a look."""
        drafts = batch.draft_len and batch.generations
        self._wanted = drafter_rows(batch, self._block) if drafts else None
        self._asked, self._found = False, None

    def at(self, seam: str) -> None:
        """The worker is at a seam."""
        if self._wanted is None or seam not in ASKED or self._ask is None:
            return
        self._asked = True
        rows: Any = list(self._ask())
        if rows != self._wanted and self._found is None:
            self._found = Divergence("comparison", ATTENTION, self._wanted, rows)

    def end(self, whole: bool) -> bool:
        """Whether there is nothing left that should have been looked at; whole: the step did not
        fail. Raises the Divergence of the first difference."""
        if self._found is not None:
            raise self._found
        return not whole or self._asked or self._wanted is None
