"""How soon a planted defect is found, by what, and what is left of the case when it is minimal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

from draftproof.fuzz.cases import Subject
from draftproof.fuzz.defects.defect import Defect
from draftproof.fuzz.defects.finding import Found, find_hypothesis, find_seeded
from draftproof.fuzz.defects.serving import output
from draftproof.fuzz.failures import Failure, examine
from draftproof.sim.divergence import Divergence
from draftproof.sim.recordings import validate
from draftproof.sim.traces import Trace, save

SEEDED_STEPS, CORE_STEPS = 60_000, 20_000
"""No defect may live through so many steps of any seed; none of the core through so many."""
MEDIAN_STEPS = 5_000
"""Nor, over all seeds, through more than so many steps in the median."""
HYPOTHESIS_EXAMPLES = 1_000
SEEDS, CORE_SEEDS = 2, 20
"""From how many seeds a defect is looked for, unless somebody says; and one of the core."""
SHRUNK = range(2)
"""Seeds whose failing case is also made minimal, and served for its output: that takes longest."""

DRIVERS = ("seeded", "hypothesis")
RECORDINGS = Path("tests/data/recordings")
"""Where they are in the repository; nowhere else are defects shown to them."""

Record = dict[str, Any]


def measure(
    defect: Defect,
    seeds: Iterable[int],
    traces: Path | None = None,
    most_steps: int = SEEDED_STEPS,
) -> Record:
    """What finding one defect takes, within so many steps of each seed.

    Keys: sentence, side, reports; found: from every seed by every driver, within the budget;
    oracles: all that found it; by seed: seeded, hypothesis: steps until found, None if not;
    cases, seconds: the same by driver; minimal_events, first (oracle and field of the minimal
    trace) and output (`serving.output` of the whole case), for the seeds shrunk;
    trace: the seed of the shortest minimal trace. traces: a folder for all of those.
    """
    subject = defect.subject()
    record: Record = {"sentence": defect.sentence, "side": defect.side, "reports": defect.reports}
    record |= {"found": True, "oracles": [], "seeded": {}, "hypothesis": {}}
    record |= {"cases": {d: {} for d in DRIVERS}, "seconds": {d: {} for d in DRIVERS}}
    record |= {"minimal_events": {}, "first": {}, "output": {}, "trace": None}
    oracles: set[str] = set()
    for seed in seeds:
        for driver in DRIVERS:
            found = _drive(record, subject, driver, seed, most_steps)
            if found is not None:
                oracles.add(told(*found.divergence.signature))
            if found is not None and driver == "seeded" and seed in SHRUNK:
                _shrink(record, defect, subject, found, seed, traces)
    if defect.side == "worker" and seen_by_recordings(subject):
        oracles.add("recordings")
    return finished(record, oracles)


def finished(record: Record, oracles: set[str]) -> Record:
    """The record with what follows from the rest of it."""
    record["oracles"] = sorted(oracles)
    record["found"] = within_budget(record)
    shortest = sorted(record["minimal_events"].items(), key=lambda item: (item[1], int(item[0])))
    record["trace"] = shortest[0][0] if shortest else None
    return record


def _drive(
    record: Record, subject: Subject, driver: str, seed: int, most_steps: int
) -> Found | None:
    begin = monotonic()
    if driver == "seeded":
        found = find_seeded(subject, seed, most_steps)
    else:
        found = find_hypothesis(subject, seed, HYPOTHESIS_EXAMPLES)
    record[driver][str(seed)] = found and found.steps
    record["cases"][driver][str(seed)] = found and found.case + 1
    record["seconds"][driver][str(seed)] = round(monotonic() - begin, 1)
    return found


def _shrink(
    record: Record, defect: Defect, subject: Subject, found: Found, seed: int, traces: Path | None
) -> None:
    failure = _minimal(defect, subject, found)
    record["minimal_events"][str(seed)] = len(failure.trace.events)
    record["first"][str(seed)] = list(failure.divergence.signature)
    record["output"][str(seed)] = output(subject, found.run)
    if traces is not None:
        save(failure.trace, traces / f"{defect.name}-{seed}.jsonl")


def _minimal(defect: Defect, subject: Subject, found: Found) -> Failure:
    """The failing case, shrunk; it names the defect, so it can be replayed from its file."""
    trace = Trace(
        config=found.run.config,
        events=tuple(found.run.events),
        implementation=defect.implementation or "",
        engine_defect=defect.name if defect.side == "engine" else None,
    )
    return examine(subject, trace, found.divergence)


def seen_by_recordings(subject: Subject, folder: Path = RECORDINGS) -> bool:
    """Whether a faulty worker disagrees with a recording of the public one."""
    assert subject.make is not None
    for path in sorted(folder.glob("*.jsonl")):
        try:
            validate(path, subject.make)
        except Divergence:
            return True
    return False


def within_budget(record: Record) -> bool:
    """Whether every seed finds it by either driver, and half of the campaign's seeds soon."""
    seeded = record["seeded"].values()
    everywhere = None not in (*seeded, *record["hypothesis"].values())
    return everywhere and median(seeded) <= MEDIAN_STEPS


def told(oracle: str, field: str) -> str:
    """An oracle in a table: of invariants, which one."""
    return f"invariant {field}" if oracle == "invariant" else oracle


def spread(steps: Mapping[str, float | None]) -> str:
    """Median and worst."""
    found = [count for count in steps.values() if count is not None]
    if len(found) < len(steps):
        return f"found from {len(found)} of {len(steps)} seeds"
    return f"{median(found):g} (worst {max(found)})" if found else "not tried"
