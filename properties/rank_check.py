"""Lockstep on several ranks at once, and what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from draftproof.properties.asked import Schedule
from draftproof.properties.atomicity import Sites
from draftproof.properties.broken import broken
from draftproof.properties.invariants import Invariants
from draftproof.properties.planned import Plans
from draftproof.properties.ranks import check_crossings, check_round
from draftproof.reference.vocabulary import Collaborators, Config, StepResult
from draftproof.sim.blame import alarm
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import Step
from draftproof.sim.faults import LATE, Faults
from draftproof.sim.guide import lend
from draftproof.sim.lockstep import Checked, MakeWorker, Side, Watch, located
from draftproof.sim.players import Player
from draftproof.sim.ranks import World
from draftproof.sim.run import Crossed, Expected, Run

Barrier = Callable[[int, int, Sequence[int]], None]


@dataclass(slots=True)
class _Rank:
    """One rank under check: its run, its oracles, and its worker, if any."""

    run: Run
    watches: list[Watch]
    side: Side | None
    seen: int = 0

    def watch(self, expected: Expected) -> None:
        """What the journal gained."""
        for watch in self.watches:
            watch.step(self.run.journal.entries[self.seen : expected.entries], expected.state)
        self.seen = expected.entries

    def end(self) -> None:
        """What came after the last forward."""
        for watch in self.watches:
            watch.step(self.run.journal.entries[self.seen :], None)


def check_ranks(
    world: World,
    make: MakeWorker | None,
    timeout: float = 0.0,
    alive: Callable[[], None] = lambda: None,
) -> Checked:
    """Every rank's worker against its model, every rank's invariants, and those of all together.

    A step counts once per rank. Raises the first Divergence, as `draftproof.sim.lockstep.check`.
    """
    checked = Checked()
    ranks = [_rank(run, make, checked, timeout) for run in world.ranks]
    with alarm() if timeout else nullcontext():
        for event, steps in world.rounds:
            alive()
            with _at(event):
                whole = _round(world.config, ranks, steps)
            if not whole:
                return checked
            checked.steps += len(ranks)
    for rank in ranks:
        with _at(None):
            rank.end()
    if world.breakdown is not None:
        raise world.breakdown
    return checked


def _rank(run: Run, make: MakeWorker | None, checked: Checked, timeout: float) -> _Rank:
    watches: list[Watch] = [Invariants(run.config), Schedule(run.config), Plans(run.config)]
    if make is None:
        return _Rank(run, watches, None)
    faults, crossed = Faults(), list[Crossed]()
    worker = make(run.config, lent_to_rank(run.config, faults, crossed))
    side = Side(worker, run.config, faults, checked, timeout, crossed=crossed)
    return _Rank(run, watches, side)


def lent_to_rank(
    config: Config, faults: Faults, crossed: list[Crossed], barrier: Barrier | None = None
) -> Collaborators:
    """What a rank's worker is lent: its barrier calls are noted, and made if there is a barrier."""

    def cross(stage: int, rows: int, counts: Sequence[int]) -> None:
        crossed.append((stage, rows, tuple(counts)))
        if barrier is not None:
            barrier(stage, rows, counts)

    return replace(lend(config, faults.at), barrier=cross)


@contextmanager
def of_rank(rank: int) -> Iterator[None]:
    """Whatever diverges in here does so on this rank."""
    try:
        yield
    except Divergence as divergence:
        divergence.rank = rank
        raise


@contextmanager
def _at(event: int | None) -> Iterator[None]:
    """Events are told by their index in the schedule of all ranks."""
    try:
        yield
    except Divergence as divergence:
        divergence.event = event
        raise


def _round(config: Config, ranks: Sequence[_Rank], steps: Sequence[Expected]) -> bool:
    """One forward on all ranks; False if the run cannot go on from here."""
    batches = [step.batch for step in steps]
    events = [rank.run.events[step.event] for rank, step in zip(ranks, steps, strict=True)]
    check_round(config, batches, [isinstance(e, Step) and e.graph for e in events])
    check_crossings(batches, [step.crossed for step in steps], config.num_stages)
    whole = True
    for number, (rank, step) in enumerate(zip(ranks, steps, strict=True)):
        with of_rank(number), located(step):
            rank.watch(step)
            if rank.side is not None:
                whole = rank.side.step(step) and whole
    if whole and ranks[0].side is not None:
        logs = [crossing(rank.side, step) for rank, step in zip(ranks, steps, strict=True)]
        check_crossings(batches, logs, config.num_stages)
        for number, (log, step) in enumerate(zip(logs, steps, strict=True)):
            if log != list(step.crossed):
                told = f"rank {number}: {list(step.crossed)}"
                broken("collectives", told, log, "comparison", step=step.batch.step)
    return whole


def crossing(side: Side | None, step: Expected) -> list[Crossed]:
    """A rank's barrier calls: its worker's, or the harness's if that never came to its forward."""
    assert side is not None
    return [*side.crossed, *(step.crossed if step.never_forward else ())]


def check_survivors(world: World, make: MakeWorker) -> Sites:
    """Ranks that did not fail never notice that another one did.

    All ranks' workers run side by side; then each rank's once more by itself, where the failed
    steps of the others are nothing but crossings. Returns how many steps beside a failing peer were
    compared, by its fault. Raises the Divergence of I19.
    """
    players = [Player(world.config, make) for _ in world.ranks]
    shown: list[list[tuple[str, ...]]] = [[] for _ in players]
    for _, steps in world.rounds:
        results = [player.step(step) for player, step in zip(players, steps, strict=True)]
        for own, player, result in zip(shown, players, results, strict=True):
            own.append(_plain(player, result))
    compared = Sites()
    for number, own in enumerate(shown):
        alone = Player(world.config, make)
        for seen, (_, steps) in zip(own, world.rounds, strict=True):
            wanted = _plain(alone, alone.step(steps[number]))
            if wanted != seen:
                found = next(pair for pair in zip(wanted, seen, strict=True) if pair[0] != pair[1])
                at, told = steps[number].batch.step, f"as if no peer had failed: {found[0]}"
                broken("I19", told, found[1], step=at, rank=number)
            for peer, step in enumerate(steps):
                if peer != number:
                    compared.update(mishaps(step))
    return compared


def mishaps(step: Expected) -> Iterator[tuple[str, str]]:
    """What went wrong in a step, by place and kind."""
    if step.fault is not None:
        yield step.fault, step.kind
    if step.late:
        yield LATE


def _plain(player: Player, result: StepResult | None) -> tuple[str, ...]:
    """Result, state and barrier calls, by value; what is not a number is equal to itself there."""
    return (_text(result), _text(player.state()), repr(player.crossed))


def _text(value: object) -> str:
    names = getattr(value, "__dataclass_fields__", ())
    fields = (getattr(value, name) for name in names)
    return repr([x.tolist() if hasattr(x, "tolist") else x for x in fields])
