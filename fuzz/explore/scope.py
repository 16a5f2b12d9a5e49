"""How much is explored, and the moves from a state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from msgspec.structs import replace

from draftproof.reference.config import checked
from draftproof.reference.vocabulary import Config
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
        simulation = Simulation(self.config())
        for event in path:
            simulation.apply(event)
        live, config = simulation.engine.live, simulation.config
        submitted, failed = self.spent(path)
        if len(live) < self.requests and submitted < self.lives:
            new = Submit(submitted, self.prompt, limit=self.limit)
            yield (new,)
            if simulation.engine.last_departed is not None:
                again = replace(new, same_id=True)
                yield (again,)
                yield (replace(again, imported=True),)
        yield from ((Cancel(ordinal),) for ordinal in live)
        if not live:
            return
        for left_out in self._left_out(live):
            pauses = tuple(Pause(ordinal) for ordinal in left_out)
            for step in self._steps(config, [*path, *pauses], failed):
                yield (*pauses, step)

    def _left_out(self, live: Sequence[int]) -> Iterator[Sequence[int]]:
        """Who is not in the next batch; with subsets it may be everybody, for an idle step."""
        yield ()
        if self.subsets:
            for size in range(1, len(live) + 1):
                yield from combinations(live, size)

    def _steps(self, config: Config, path: Sequence[AnyEvent], failed: bool) -> Iterator[Step]:
        """Every r; for each every way to accept, and the failure, which comes before that."""
        decoding = _decoding(config, path)
        for r in range(self.block + 1):
            for accepts in product(range(r + 1), repeat=decoding):
                yield Step(accepts=accepts, draft_len=r)
            if self.seam is not None and not failed:
                yield Step(draft_len=r, fault=self.seam)


def _decoding(config: Config, path: Sequence[AnyEvent]) -> int:
    """How many generation rows of requests the next step will have."""
    simulation = Simulation(config)
    for event in path:
        simulation.apply(event)
    expected = simulation.apply(Step(draft_len=0))
    if expected is None:
        return 0  # engine and model break down, as the move itself will show
    return sum(row.incarnation > 0 for row in expected.batch.generations)
