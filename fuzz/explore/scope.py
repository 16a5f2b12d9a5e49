"""How much is explored, and the moves from a state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from msgspec.structs import replace

from draftproof.fuzz.driving.exhaustive import every
from draftproof.reference.config import checked
from draftproof.reference.vocabulary import Config
from draftproof.sim.choices import Choices
from draftproof.sim.events import AnyEvent, Cancel, Pause, Step, Submit
from draftproof.sim.run import Simulation

Move = tuple[AnyEvent, ...]
"""One edge: an event, a step with the pauses before it that leave requests out."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Bounds that make the number of schedules finite.

    requests: most that are there at the same time; lives: most that are submitted in all; slots: S;
    block: K; window: W; depth: moves in a sequence; prompt, limit: tokens of a request at first,
    and most that it emits; seam: where a step may fail, once in a sequence, None for never;
    subsets: any of the requests may be in a batch, else everybody is.
    """

    requests: int = 2
    lives: int = 3
    slots: int = 2
    block: int = 2
    window: int = 3
    stages: int = 1
    depth: int = 6
    prompt: int = 2
    limit: int = 6
    seam: str | None = "draft"
    subsets: bool = False

    def config(self) -> Config:
        """The configuration. Raises ConfigError for sizes that make none."""
        room = self.slots * (self.prompt + self.limit + 1 + self.block)
        return checked(
            Config(self.block, self.window, self.stages, self.slots, max_num_tokens=room)
        )

    def spent(self, path: Sequence[AnyEvent]) -> tuple[int, bool]:
        """How many requests there were, and whether a step has failed: neither for ever."""
        failed = any(isinstance(event, Step) and event.fault for event in path)
        return sum(isinstance(event, Submit) for event in path), failed

    def moves(self, path: Sequence[AnyEvent]) -> Iterator[Move]:
        """What may happen next, each in one way only; what would do nothing is left out."""
        crossing = Crossing(self, path)
        return every(crossing.choose) if crossing.ways else iter(())


class Crossing:
    """Where a path has led, and the choice of what comes next.

    changes: who may come or go; subsets: who may be left out of the next batch, none if nobody is
    there. With `Scope.subsets` that may be everybody, for an idle step.
    """

    def __init__(self, scope: Scope, path: Sequence[AnyEvent]) -> None:
        self.scope, self.path = scope, path
        self.submitted, self.failed = scope.spent(path)
        simulation = _led(scope, path)
        live = simulation.engine.live
        returned = simulation.engine.last_departed is not None
        self.changes = [*self._arrivals(len(live), returned), *map(Cancel, live)]
        most = len(live) if scope.subsets else 0
        sizes = range(most + 1) if live else ()
        self.subsets = [left_out for size in sizes for left_out in combinations(live, size)]
        self._decoding: dict[Move, int] = {}

    @property
    def ways(self) -> int:
        """Each change, or a step."""
        return len(self.changes) + bool(self.subsets)

    def choose(self, choices: Choices) -> Move:
        """One move."""
        way = choices.below(self.ways)
        if way < len(self.changes):
            return (self.changes[way],)
        left_out = self.subsets[choices.below(len(self.subsets))]
        pauses = tuple(Pause(ordinal) for ordinal in left_out)
        return (*pauses, self._step(choices, pauses))

    def _arrivals(self, live: int, returned: bool) -> Iterator[AnyEvent]:
        """A new request, under an id of its own or, with its prompt or without, the last one's."""
        scope = self.scope
        if live < scope.requests and self.submitted < scope.lives:
            new = Submit(self.submitted, scope.prompt, limit=scope.limit)
            yield new
            if returned:
                yield replace(new, same_id=True)
                yield replace(new, same_id=True, imported=True)

    def _step(self, choices: Choices, pauses: Move) -> Step:
        """Any r; any way to accept, or the failure, which comes before that."""
        r = choices.below(self.scope.block + 1)
        if self.scope.seam is not None and not self.failed and choices.below(2):
            return Step(draft_len=r, fault=self.scope.seam)
        accepts = tuple(choices.below(r + 1) for _ in range(self._decoders(pauses)))
        return Step(accepts=accepts, draft_len=r)

    def _decoders(self, pauses: Move) -> int:
        """How many generation rows of requests the step will have."""
        if pauses not in self._decoding:
            expected = _led(self.scope, [*self.path, *pauses]).apply(Step(draft_len=0))
            # None: engine and model break down, as the move itself will show.
            rows = () if expected is None else expected.batch.generations
            self._decoding[pauses] = sum(row.incarnation > 0 for row in rows)
        return self._decoding[pauses]


def _led(scope: Scope, path: Sequence[AnyEvent]) -> Simulation:
    simulation = Simulation(scope.config())
    for event in path:
        simulation.apply(event)
    return simulation
