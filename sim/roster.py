"""Who waits, who is admitted, who has left: the requests that a serving engine knows."""

from __future__ import annotations

from draftproof.reference.vocabulary import PADDING_ID_BASE, Config
from draftproof.sim import journal as log
from draftproof.sim.events import Submit
from draftproof.sim.requests import Request

WIDE = 32
"""By how many bits an id is shifted that the lower ones say nothing of."""


class Roster:
    """First come, first admitted, as far as there are sequence slots."""

    def __init__(self, config: Config, journal: log.Journal) -> None:
        self.config = config
        self.journal = journal
        self.waiting: list[Request] = []
        self.running: list[Request] = []  # admitted, at most S, in order of admission
        self.lives: dict[int, Request] = {}  # the same by incarnation
        self.seq_slots = list(range(config.max_num_requests))
        self.submitted: set[int] = set()  # ordinals
        self.last_departed: int | None = None

    @property
    def everybody(self) -> list[Request]:
        """The requests that have not departed, admitted ones first."""
        return [*self.running, *self.waiting]

    @property
    def live(self) -> list[int]:
        """Their ordinals."""
        return [request.ordinal for request in self.everybody]

    def _find(self, ordinal: int) -> Request | None:
        return next((request for request in self.everybody if request.ordinal == ordinal), None)

    def _submit(self, event: Submit) -> None:
        if event.request in self.submitted:
            return  # an ordinal names one request
        self.submitted.add(event.request)
        ids = {request.request_id for request in self.everybody}
        request_id = event.request + 1
        if event.numbering == "wide":
            request_id = request_id + 1 << WIDE  # beyond those of a warm-up
        elif event.numbering == "last":
            request_id = PADDING_ID_BASE - self.config.max_draft_len - request_id
        if event.same_id and self.last_departed is not None and self.last_departed not in ids:
            request_id = self.last_departed
        request = Request.of(event, request_id, self.config)
        self.journal.write(log.Submitted(request_id, request.incarnation, event))
        self.waiting.append(request)

    def _depart(self, request: Request, reason: str) -> None:
        self.journal.write(log.Departed(request.incarnation, reason))
        self.last_departed = request.request_id
        if request in self.waiting:
            self.waiting.remove(request)
        else:
            self.running.remove(request)
            del self.lives[request.incarnation]
            assert request.seq_slot is not None
            self.seq_slots.append(request.seq_slot)

    def _admit(self) -> None:
        while self.waiting and self.seq_slots:
            request = self.waiting.pop(0)
            request.seq_slot = self.seq_slots.pop(0)
            self.running.append(request)
            self.lives[request.incarnation] = request
