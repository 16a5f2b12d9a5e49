"""One rank's engine, and what the ranks' hosts tell each other before a step (sections 11 and 13).

Each rank looks up its own r, and plans its own windows. What is gathered: what kind of step each
rank makes, how many rows and tokens it wants a graph for, and how many rows it drafts. From that
each computes the same graph for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from draftproof.reference.config import padded_size
from draftproof.reference.ragged import Load, Shape
from draftproof.reference.vocabulary import Batch, Config, GenerationRow
from draftproof.sim import journal as log
from draftproof.sim.engine import Engine
from draftproof.sim.events import AnyEvent, Step, Warmup
from draftproof.sim.requests import Request
from draftproof.sim.scheduling import in_turn, whole_blocks
from draftproof.sim.snapshots import load_of, shape_for
from draftproof.sim.views import device_view
from draftproof.sim.warmups import warmup_rows

Kind = Literal["uniform", "ragged", "bucket"]
"""Families of graphs: without windows, with any, with windows that fill a token bucket."""

NOBODY = Load(0, 0)
"""What has to fill a bucket on an idle rank, before padding."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a rank tells of its next step, before it knows what the others tell.

    generations: idle dummy included; real: the same without contexts' rows, and at least 1; graph:
    it would replay one; fixed: its generations are what they are, as in a warm-up; kind: None for
    an idle rank that drafts a whole block, whose dummy takes any; load: what has to fill a bucket.
    """

    generations: int
    real: int
    draft_len: int
    graph: bool
    fixed: bool = False
    kind: Kind | None = "uniform"
    load: Load = NOBODY


@dataclass(frozen=True, slots=True)
class Agreed:
    """What follows from all wishes.

    wanted: rows that graphs are padded for, None if nobody pads; rank_rows: what each rank drafts;
    kind: of everybody's graph; tokens: of a bucket's.
    """

    wanted: int | None
    rank_rows: tuple[int, ...]
    kind: Kind = "uniform"
    tokens: int = 0


class RankEngine(Engine):
    """An engine among others.

    peers: all of them, itself included; it never looks into them. follows: the step to come is idle
    and takes the kind that was agreed on.
    """

    def __init__(self, config: Config, journal: log.Journal) -> None:
        super().__init__(config, journal)
        self.peers: list[RankEngine] = [self]
        self.agreed = Agreed(None, (0,))
        self.follows = False

    def wish(self, event: Step | Warmup) -> Wish:
        """Look at the next step without taking it."""
        self.follows = False
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
        decoding = [view for view in in_turn(ready, event.rotate) if view.decoding]
        contexts = len(ready) - len(decoding)
        generations = len(decoding) if ready else 1
        self.follows = not ready and whole_blocks(self.config, r)
        kind, load = self._kind(event, r, decoding)
        graph = event.graph and not contexts
        return Wish(generations, max(1, len(decoding)), r, graph, kind=kind, load=load)

    def _kind(self, event: Step, r: int, decoding: list[Request]) -> tuple[Kind | None, Load]:
        """Of a step over generations, and what it has to fill a bucket with."""
        if self.follows:
            return None, NOBODY
        if event.windows and whole_blocks(self.config, r):
            return "ragged", NOBODY
        seen = self._look(event, r, [view.generation(r) for view in decoding])
        if seen is None or seen.confidences is None:
            return "uniform", NOBODY
        if not self.config.verify_buckets:
            return "ragged", NOBODY
        return "bucket", load_of(self.config, len(decoding), seen.budget)

    def handle(self, event: AnyEvent) -> Batch | None:
        """As of one rank; the dummy of an idle one has the layout of its peers' graph."""
        if self.follows and isinstance(event, Step):
            windows = (1,) if self.agreed.kind == "ragged" else ()
            event = msgspec.structs.replace(event, age=None, windows=windows)
        batch = super().handle(event)
        return None if batch is None else replace(batch, rank_rows=self.agreed.rank_rows)

    def _look(self, event: Step, r: int, rows: Sequence[GenerationRow]) -> log.Look | None:
        """An idle rank plans for nobody, from no snapshot, if there is a bucket to fill."""
        if not self.follows:
            return super()._look(event, r, rows)
        return log.Look(1, (), 0) if self.agreed.kind == "bucket" else None

    def _shape(self, r: int, real: int, budget: int | None) -> Shape | None:
        """Padded for the largest of all ranks, or not at all."""
        if self.agreed.wanted is None:
            return None
        size = padded_size(self.config, self.agreed.wanted, r)
        return None if size is None else Shape(size, self.agreed.tokens)

    def _feed(self, batch: Batch, reserved: Sequence[int], look: log.Look | None = None) -> Batch:
        ranked = replace(batch, rank_rows=self.agreed.rank_rows)
        return super()._feed(ranked, reserved, look)


def agree(config: Config, wishes: Sequence[Wish]) -> Agreed:
    """Everybody pads, for one graph of one kind, or nobody does if anybody cannot."""
    kind = common_kind(wishes)
    shape = graph_for_all(config, wishes, kind)
    if kind is None or shape is None:
        return Agreed(None, tuple(drafted(config, wish, None) for wish in wishes))
    rows = tuple(drafted(config, wish, shape.rows) for wish in wishes)
    return Agreed(shape.rows, rows, kind, shape.tokens)


def common_kind(wishes: Sequence[Wish]) -> Kind | None:
    """That of all ranks but those that take any; None: they differ."""
    kinds = {wish.kind for wish in wishes if wish.kind is not None} or {"uniform"}
    return kinds.pop() if len(kinds) == 1 else None


def graph_for_all(config: Config, wishes: Sequence[Wish], kind: Kind | None) -> Shape | None:
    """Rows for the rank with the most, or a bucket that every rank can fill; None: nobody replays.

    Without a bucket each rank pads these rows to a captured size for its own r.
    """
    if kind is None or not all(wish.graph for wish in wishes):
        return None
    if kind == "bucket":
        return shape_for(config, [wish.load for wish in wishes])
    rows = max(wish.real for wish in wishes)
    able = all(padded_size(config, rows, wish.draft_len) is not None for wish in wishes)
    return Shape(rows, 0) if able else None


def drafted(config: Config, wish: Wish, wanted: int | None) -> int:
    """Rows that a rank drafts, padding included."""
    if not wish.draft_len:
        return 0
    size = None if wanted is None or wish.fixed else padded_size(config, wanted, wish.draft_len)
    return (size or wish.generations) * config.max_draft_len
