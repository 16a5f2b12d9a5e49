"""`draftproof faults`: every fault, on one to four ranks, and what held behind each."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from time import perf_counter

from draftproof.fuzz.collector import calm_collector
from draftproof.fuzz.coverage.ranks import RANK_POINTS
from draftproof.fuzz.ranks.cases import RankSubject
from draftproof.fuzz.ranks.defects import RANK_CATALOGUE
from draftproof.fuzz.ranks.failures import tell_failure, trace_of
from draftproof.fuzz.ranks.faults import Table, markdown, run_campaign
from draftproof.fuzz.ranks.measuring import measure_ranks
from draftproof.fuzz.refused import refusals
from draftproof.fuzz.supervise import Beacon, supervised
from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import MISSED, UsageError
from draftproof.sim.faults import LATE
from draftproof.sim.files import check_all_writable, check_writable, write_whole
from draftproof.sim.loading import load
from draftproof.sim.ranks import World
from draftproof.sim.traces import Trace

SEEDS = 2
"""Of every planted defect of ranks, for the page."""


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0; 1 or 7 (a failure, shrunk and saved); 6 if some fault, or some
    pattern of ranks, never happened."""
    return supervised(arguments, _run)


def _run(arguments: argparse.Namespace, beacon: Beacon) -> int:
    check_writable(arguments.trace_dir)
    check_all_writable([arguments.write])
    if arguments.write is not None and arguments.write.suffix != ".md":
        raise UsageError(f"{arguments.write}: the page is Markdown: name it *.md")
    make = load(arguments.implementation, arguments.device, arguments.option)
    calm_collector()
    timeout = arguments.step_timeout
    subject = RankSubject(make, step_timeout=timeout, alive=beacon.beat, live=True)
    plain = replace(subject, live=False)  # the campaign itself looks at what is behind faults
    last: list[Trace] = []
    table, start = Table(), perf_counter()

    def begin(world: World) -> None:
        last[:] = [trace_of(arguments, world)]
        beacon.show(last[0])
        if sys.stderr.isatty():
            print(f"\r{table.steps:,} steps ...", end="", file=sys.stderr, flush=True)

    try:
        run_campaign(plain, arguments.seed, arguments.steps, begin, table)
    except Divergence as divergence:
        return tell_failure(arguments, subject, last[0], divergence)
    seconds = perf_counter() - start
    faults, late, missed, unmet = table.faults, table.happened[LATE], table.missed, table.unmet
    print(f"{table.steps:,} steps, {faults:,} faults, nothing wrong, in {seconds:.0f} s")
    print(f"{late:,} results came one step late")
    print(f"{len(RANK_POINTS) - len(unmet)} of {len(RANK_POINTS)} patterns of ranks")
    print("".join(f"{line}\n" for line in refusals(table.refused)), end="")
    if table.faults_without_seam:
        print(f"{table.faults_without_seam:,} faults at seams that the implementation never calls")
    if arguments.write is not None:
        _write(arguments, table)
    if missed:
        print(f"never happened: {', '.join(f'{kind} at {place}' for place, kind in missed)}")
    if unmet:
        print(f"never met: {', '.join(unmet)}")
    return MISSED if missed or unmet else 0


def _write(arguments: argparse.Namespace, table: Table) -> None:
    records = {n: measure_ranks(defect, range(SEEDS)) for n, defect in RANK_CATALOGUE.items()}
    command = f"draftproof faults --steps {arguments.steps} --seed {arguments.seed}"
    page = markdown(table, f"{command} --write {arguments.write}", records)
    write_whole(page.encode(), arguments.write)
