"""Which request owns which slot (semantics, section 3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from draftproof.reference.vocabulary import (
    IDLE_ID,
    PADDING_ID_BASE,
    Batch,
    BatchError,
    Config,
    ContextRow,
    GenerationRow,
)


class Slots:
    """Owners and the queue of free slots.

    `clear(slot)` is called when a slot is given up and when it is given out, `admit(slot)` after
    the latter.
    """

    def __init__(
        self, config: Config, clear: Callable[[int], None], admit: Callable[[int], None]
    ) -> None:
        self.config = config
        self.scratch = config.max_num_requests
        self.owned: dict[int, tuple[int, int]] = {}  # id -> (slot, incarnation), in order
        self.free = deque(range(config.max_num_requests))
        self._clear = clear
        self._admit = admit

    def is_dummy(self, request_id: int) -> bool:
        """Idle and padding ids map to scratch and never take a slot."""
        return request_id == IDLE_ID or request_id >= PADDING_ID_BASE - self.config.max_draft_len

    def real_rows(self, batch: Batch) -> list[ContextRow | GenerationRow]:
        """The rows that stand for requests, in batch order."""
        return [row for row in batch.rows if not self.is_dummy(row.request_id)]

    def check(self, batch: Batch) -> None:
        """Raise BatchError if no worker may accept the batch; changes nothing."""
        if len(batch.rows) > self.config.max_num_requests:
            raise BatchError(
                f"batch of {len(batch.rows)} rows, but max_num_requests is {self.scratch}"
            )
        rows = self.real_rows(batch)
        if len({row.request_id for row in rows}) != len(rows):
            raise BatchError("a request id stands twice in the batch")

    def slot_of(self, request_id: int) -> int:
        """The slot of a known id, else scratch."""
        return self.owned[request_id][0] if request_id in self.owned else self.scratch

    def forget_departed(self, batch: Batch) -> None:
        """Section 3, step 1: whoever is not in the batch, or is another incarnation, goes."""
        present = {row.request_id: row.incarnation for row in self.real_rows(batch)}
        departed = [
            request_id
            for request_id, (_, incarnation) in self.owned.items()
            if present.get(request_id) != incarnation
        ]
        for request_id in departed:
            self._forget(request_id)

    def assign(self, request_id: int, incarnation: int, reset: bool) -> int:
        """Give a request a slot; a reset sends its old one to the end of the queue first.

        Raises BatchError, changing nothing, if no slot is free.
        """
        if reset and request_id in self.owned:
            self._forget(request_id)
        if request_id not in self.owned:
            if not self.free:
                raise BatchError(f"no free slot for request {request_id}")
            slot = self.free.popleft()
            self._clear(slot)
            self._admit(slot)
            self.owned[request_id] = (slot, incarnation)
        return self.owned[request_id][0]

    def _forget(self, request_id: int) -> None:
        slot, _ = self.owned.pop(request_id)
        self._clear(slot)
        self.free.append(slot)
