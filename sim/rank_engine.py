"""One rank's engine, and what the ranks' hosts tell each other before a step (sections 11 and 13).

Each rank looks up its own r. Only two things are gathered: how many rows everybody wants a graph
for, and how many everybody drafts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from draftproof.reference.config import padded_size
from draftproof.reference.ragged import Shape
from draftproof.reference.vocabulary import Batch, Config
from draftproof.sim import journal as log
from draftproof.sim.engine import Engine
from draftproof.sim.events import Step, Warmup
from draftproof.sim.views import device_view
from draftproof.sim.warmups import warmup_rows


@dataclass(frozen=True, slots=True)
class Wish:
    """What a rank tells of its next step, before it knows what the others tell.

    generations: idle dummy included; real: the same without contexts' rows, and at least 1; graph:
    it would replay one; fixed: its generations are what they are, as in a warm-up.
    """

    generations: int
    real: int
    draft_len: int
    graph: bool
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Agreed:
    """What follows from all wishes: rows that graphs are padded for, None if nobody pads; and what
    each rank drafts, in rows."""

    wanted: int | None
    rank_rows: tuple[int, ...]


class RankEngine(Engine):
    """An engine among others. peers: all of them, itself included; it never looks into them."""

    def __init__(self, config: Config, journal: log.Journal) -> None:
        super().__init__(config, journal)
        self.peers: list[RankEngine] = [self]
        self.agreed = Agreed(None, (0,))

    def wish(self, event: Step | Warmup) -> Wish:
        """Look at the next step without taking it."""
        if isinstance(event, Warmup):
            live = [request.generation(0) for request in self.running] if event.live else []
            rows, _ = warmup_rows(self.config, event, self.forwards, live)
            count = len(rows.generations)
            return Wish(count, count, rows.draft_len, graph=False, fixed=True)
        if not event.late:
            self.settle()
        self._admit()
        views = [device_view(request, self.pending) for request in self.running]
        ready = [view for view in views if not self.lives[view.incarnation].pause]
        r = self._draft_len(event, max(1, len(ready)))
        decoding = sum(view.decoding for view in ready)
        contexts = len(ready) - decoding
        generations = decoding if ready else 1
        return Wish(generations, max(1, decoding), r, event.graph and not contexts)

    def _shape(self, r: int, real: int, budget: int | None) -> Shape | None:
        """Padded for the largest of all ranks, or not at all."""
        if self.agreed.wanted is None:
            return None
        size = padded_size(self.config, self.agreed.wanted, r)
        return None if size is None else Shape(size, 0)

    def _feed(self, batch: Batch, reserved: Sequence[int], look: log.Look | None = None) -> Batch:
        ranked = replace(batch, rank_rows=self.agreed.rank_rows)
        return super()._feed(ranked, reserved, look)


def agree(config: Config, wishes: Sequence[Wish]) -> Agreed:
    """Everybody pads for the most rows, or nobody does if anybody cannot."""
    wanted: int | None = max(wish.real for wish in wishes)
    assert wanted is not None
    if any(
        not wish.graph or padded_size(config, wanted, wish.draft_len) is None for wish in wishes
    ):
        wanted = None
    return Agreed(wanted, tuple(drafted(config, wish, wanted) for wish in wishes))


def drafted(config: Config, wish: Wish, wanted: int | None) -> int:
    """Rows that a rank drafts, padding included."""
    if not wish.draft_len:
        return 0
    size = None if wanted is None or wish.fixed else padded_size(config, wanted, wish.draft_len)
    return (size or wish.generations) * config.max_draft_len
