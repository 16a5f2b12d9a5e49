"""Events of a schedule for several ranks, beside those of one (`draftproof.sim.events`)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from draftproof.sim.events import AnyEvent, Event, Step, Warmup

MOST_RANKS = 8
Rank = Annotated[int, msgspec.Meta(ge=0, lt=MOST_RANKS)]


class On(Event, frozen=True, tag="on"):
    """Something that happens on one rank alone; skipped if there is no such rank, or if it is a
    forward, which no rank makes alone."""

    rank: Rank
    event: AnyEvent


class Together(Event, frozen=True, tag="together"):
    """A forward on every rank: its own step for each; plain steps for those left out."""

    events: tuple[Step | Warmup, ...] = ()


RankEvent = On | Together
EveryEvent = AnyEvent | On | Together
