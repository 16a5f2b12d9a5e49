"""`draftproof check --ranks N`: random schedules of several ranks, each in lockstep."""

from __future__ import annotations

import argparse
from collections import Counter
from itertools import count
from time import perf_counter

from draftproof.fuzz.amount import amount_of
from draftproof.fuzz.collector import calm_collector
from draftproof.fuzz.ranks.cases import RankSubject, seeded_world
from draftproof.fuzz.ranks.failures import tell_failure, trace_of
from draftproof.fuzz.refused import refusals, refuse
from draftproof.fuzz.supervise import Beacon
from draftproof.reference.vocabulary import ConfigError
from draftproof.sim.divergence import Divergence
from draftproof.sim.files import check_writable
from draftproof.sim.loading import load
from draftproof.sim.ranks import World

RAGGED = "steps", "beside uniform ranks", "in an agreed bucket", "by budgets that differ", "idle"
"""What is counted of ragged steps, the last two of those in a bucket."""


def campaign_of_ranks(arguments: argparse.Namespace, beacon: Beacon) -> int:
    """Exit code 0, 1 (a failure, shrunk and saved), 4, or 5 (out of time before the minimum)."""
    check_writable(arguments.trace_dir)
    make = load(arguments.implementation, arguments.device, arguments.option)
    calm_collector()
    subject = RankSubject(make, step_timeout=arguments.step_timeout, alive=beacon.beat)
    print(f"checking {arguments.implementation} on {arguments.ranks} ranks, seed {arguments.seed}")
    amount = amount_of(arguments)
    cases, steps, crossed, start = 0, 0, 0, perf_counter()
    ragged, refused = Counter[str](), Counter[str]()
    for index in count():
        if amount.over(cases, steps, perf_counter() - start):
            break
        world = seeded_world(arguments.seed, index, arguments.ranks)
        trace = trace_of(arguments, world)
        beacon.show(trace)
        try:
            steps += subject.judge_world(world).steps
        except Divergence as divergence:
            return tell_failure(arguments, subject, trace, divergence)
        except ConfigError as error:
            refuse(refused, error, cases)
            continue
        cases += 1
        crossed += sum(len(step.crossed) for run in world.ranks for step in run.steps)
        ragged += ragged_steps(world)
    seconds = perf_counter() - start
    print(f"steps            {steps:,} on {arguments.ranks} ranks, {crossed:,} barrier calls")
    print(f"ragged           {', '.join(f'{ragged[name]:,} {name}' for name in RAGGED)}")
    print("".join(f"{line}\n" for line in refusals(refused)), end="")
    print(f"no difference found in {seconds:.1f} s, {steps / seconds:,.0f} steps/s")
    return 0


def ragged_steps(world: World) -> Counter[str]:
    """How many steps were ragged, and in what company; one counts once per rank."""
    counted: Counter[str] = Counter()
    for _, steps in world.rounds:
        ragged = [step.batch for step in steps if step.batch.verify_lens is not None]
        filled = [batch for batch in ragged if batch.verify_bucket and batch.mode == "replay"]
        idle = [batch for batch in filled if not any(row.incarnation for row in batch.rows)]
        beside = ragged if len(ragged) < len(steps) else []
        differ = filled if len({batch.verify_budget for batch in filled}) > 1 else []
        numbers = map(len, (ragged, beside, filled, differ, idle))
        counted.update(dict(zip(RAGGED, numbers, strict=True)))
    return counted
