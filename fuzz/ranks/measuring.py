"""How soon a planted defect of ranks is found, and what is left of the case when it is minimal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from time import monotonic

from draftproof.fuzz.defects.measuring import DRIVERS, SEEDED_STEPS, SHRUNK, Record, finished, told
from draftproof.fuzz.failures import examine
from draftproof.fuzz.ranks.cases import FoundWorld, RankSubject, find_seeded_world
from draftproof.fuzz.ranks.defects import RankDefect
from draftproof.fuzz.ranks.output import rank_output
from draftproof.sim.traces import Trace, save


def measure_ranks(defect: RankDefect, seeds: Iterable[int], traces: Path | None = None) -> Record:
    """As `defects/measuring.py` for one rank, by seeded schedules alone; a step counts per rank."""
    subject = defect.subject()
    record: Record = {"sentence": defect.sentence, "side": defect.side, "reports": defect.reports}
    record |= {"found": True, "oracles": [], "seeded": {}, "hypothesis": {}}
    record |= {"minimal_events": {}, "first": {}, "output": {}, "trace": None}
    record |= {"cases": {d: {} for d in DRIVERS}, "seconds": {d: {} for d in DRIVERS}}
    oracles: set[str] = set()
    for seed in seeds:
        begin = monotonic()
        found = find_seeded_world(subject, seed, SEEDED_STEPS)
        record["seconds"]["seeded"][str(seed)] = round(monotonic() - begin, 1)
        record["seeded"][str(seed)] = found and found.steps
        record["cases"]["seeded"][str(seed)] = found and found.case + 1
        if found is None:
            continue
        oracles.add(told(*found.divergence.signature))
        if seed in SHRUNK:
            trace = minimal_world(defect, subject, found)
            record["minimal_events"][str(seed)] = len(trace.events)
            record["first"][str(seed)] = list(found.divergence.signature)
            record["output"][str(seed)] = rank_output(subject, found.world)
            if traces is not None:
                save(trace, traces / f"{defect.name}-{seed}.jsonl")
    return finished(record, oracles)


def minimal_world(defect: RankDefect, subject: RankSubject, found: FoundWorld) -> Trace:
    """The failing case, shrunk; it names the defect, so it can be replayed from its file."""
    trace = Trace(
        config=found.world.config,
        events=tuple(found.world.events),
        implementation=defect.implementation or "",
        engine_defect=defect.name if defect.side == "engine" else None,
        ranks=len(found.world.ranks),
    )
    return examine(subject, trace, found.divergence).trace
