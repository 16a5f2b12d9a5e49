"""Whether the output of several ranks alone would have shown a fault.

As `defects/serving.py` for one rank, but each rank's worker is led through its run instead of
being served, and it is also looked at whether the ranks' barrier calls would leave them waiting.
What the target's own collectives would do with batches that do not go together is not modelled.
"""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.fuzz.defects.serving import reading, sent
from draftproof.fuzz.ranks.cases import RankSubject
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import UNDONE, StepResult
from draftproof.sim.players import Player
from draftproof.sim.ranks import World
from draftproof.sim.run import Crossed, Expected


def rank_output(subject: RankSubject, world: World) -> str:
    """What somebody sees of a world who sees the output of its ranks alone.

    "stuck": a rank waits for its peers for ever, and they for it; "wrong": a worker sends another
    token than it should, or a request is sent one that the target did not say there; "died": a rank
    could not go on; "right": nothing at all.
    """
    players = [Player(world.config, subject.make or Model) for _ in world.ranks]
    for _, steps in world.rounds:
        pairs = list(zip(players, steps, strict=True))
        results = [player.step(step) for player, step in pairs]
        # Where a worker never came to its forward, the executor crosses in its place.
        calls = [
            [*player.crossed, *(step.crossed if step.never_forward else ())]
            for player, step in pairs
        ]
        if waiting(calls):
            return "stuck"
        if any(map(_wrong, results, steps)):
            return "wrong"
    if any(reading(run) is not None for run in world.ranks):
        return "wrong"
    return "right" if world.breakdown is None else "died"


def waiting(logs: Sequence[Sequence[Crossed]]) -> bool:
    """Whether ranks with these barrier calls in one step, each rank's in order, do not all return.

    They do if all make the same calls, and each brings as many rows as the list says of it, or the
    dummy row.
    """
    if len({len(log) for log in logs}) > 1:
        return True
    for calls in zip(*logs, strict=True):
        if len({(stage, counts) for stage, _, counts in calls}) > 1:
            return True
        for rank, (_, rows, counts) in enumerate(calls):
            if rank >= len(counts) or not counts[rank] or rows not in (counts[rank], 1):
                return True
    return False


def _wrong(result: StepResult | None, expected: Expected) -> bool:
    """Whether requests are sent other tokens than they should be."""
    batch = expected.batch
    if result is None or expected.result is None or batch.mode in UNDONE:
        return False
    pairs = [(sent(result, b), sent(expected.result, b)) for b in range(len(batch.rows))]
    real = [row.incarnation > 0 for row in batch.rows]
    return any(have != want for (have, want), one in zip(pairs, real, strict=True) if one)
