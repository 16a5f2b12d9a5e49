"""`draftproof defects`: plants each known defect and shows how soon it is found, and by what."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from draftproof.fuzz.cases import Subject
from draftproof.fuzz.catalogue import CATALOGUE, Defect
from draftproof.fuzz.drivers import Found, find_hypothesis, find_seeded
from draftproof.fuzz.failures import examine
from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import UsageError
from draftproof.sim.files import write_whole
from draftproof.sim.recordings import validate
from draftproof.sim.traces import Trace, save

SEEDED_STEPS = 20_000
HYPOTHESIS_EXAMPLES = 1_000
SHRUNK = range(2)
"""Seeds whose failing case is also made minimal, which takes longest."""
MISSED = 6

Record = dict[str, Any]


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 if every defect is found from every seed, else 6."""
    unknown = [name for name in arguments.names if name not in CATALOGUE]
    if unknown:
        raise UsageError(f"no planted defect {unknown[0]!r}; there are {', '.join(CATALOGUE)}")
    names = arguments.names or list(CATALOGUE)
    records = {}
    for name in names:
        records[name] = measure(CATALOGUE[name], range(arguments.seeds), arguments.traces)
        if not arguments.json:
            print(f"{name}: {_story(records[name])}", flush=True)
    if arguments.json:
        print(json.dumps(records, indent=1))
    if arguments.save is not None:
        write_whole(
            (json.dumps(records, indent=1) + "\n").encode(), arguments.save / "defects.json"
        )
        write_whole(markdown(records).encode(), arguments.save / "defects.md")
    everywhere = all(None not in steps.values() for r in records.values() for steps in _counts(r))
    return 0 if everywhere else MISSED


def measure(defect: Defect, seeds: Iterable[int], traces: Path | None = None) -> Record:
    """What finding one defect takes, per driver and seed; None: not found within the budget."""
    subject = defect.subject()
    record: Record = {"sentence": defect.sentence, "side": defect.side, "reports": defect.reports}
    oracles: set[str] = set()
    seeded: Record = {}
    hypothesis: Record = {}
    minimal: Record = {}
    for seed in seeds:
        found = find_seeded(subject, seed, SEEDED_STEPS)
        seeded[str(seed)] = found.steps if found else None
        if found:
            oracles.add(_oracle(found.divergence))
        if found and seed in SHRUNK:
            trace = minimal_trace(defect, subject, found)
            minimal[str(seed)] = len(trace.events)
            if traces is not None:
                save(trace, traces / f"{defect.name}-{seed}.jsonl")
        drawn = find_hypothesis(subject, seed, HYPOTHESIS_EXAMPLES)
        hypothesis[str(seed)] = drawn.steps if drawn else None
        oracles |= {_oracle(drawn.divergence)} if drawn else set()
    if defect.side == "worker" and seen_by_recordings(subject):
        oracles.add("recordings")
    record |= {"oracles": sorted(oracles), "seeded": seeded, "hypothesis": hypothesis}
    return record | {"minimal_events": minimal}


def minimal_trace(defect: Defect, subject: Subject, found: Found) -> Trace:
    """The failing case, shrunk; it names the defect, so it can be replayed from its file."""
    trace = Trace(
        config=found.run.config,
        events=tuple(found.run.events),
        implementation=defect.implementation or "",
        engine_defect=defect.name if defect.side == "engine" else None,
    )
    return examine(subject, trace, found.divergence).trace


def seen_by_recordings(subject: Subject, folder: Path = Path("tests/data/recordings")) -> bool:
    """Whether a faulty worker disagrees with a recording of the public one."""
    assert subject.make is not None
    for path in sorted(folder.glob("*.jsonl")):
        try:
            validate(path, subject.make)
        except Divergence:
            return True
    return False


def _oracle(divergence: Divergence) -> str:
    if divergence.oracle == "invariant":
        return f"invariant {divergence.field}"
    return divergence.oracle


def _counts(record: Record) -> tuple[Record, Record]:
    return record["seeded"], record["hypothesis"]


def _story(record: Record) -> str:
    seeded, hypothesis = (_spread(steps) for steps in _counts(record))
    events = max(record["minimal_events"].values(), default=0)
    return (
        f"steps {seeded} seeded, {hypothesis} Hypothesis; at most {events} events; "
        f"found by {', '.join(record['oracles']) or 'nothing'}"
    )


def _spread(steps: Record) -> str:
    found = [count for count in steps.values() if count is not None]
    if len(found) < len(steps):
        return f"found from {len(found)} of {len(steps)} seeds"
    return f"{median(found):g} (worst {max(found)})"


def markdown(records: dict[str, Record]) -> str:
    """The table for the docs."""
    seeds = max((len(record["seeded"]) for record in records.values()), default=0)
    lines = [
        "# Planted defects",
        "",
        f"Made by `draftproof defects NAME... --seeds {seeds} --save docs` for the names below,",
        "that is all but the defects of graphs, whose replays on a CPU are slow.",
        "",
        f"Steps until found: median and worst over {seeds} seeds.",
        f"Budget: {SEEDED_STEPS:,} steps seeded, {HYPOTHESIS_EXAMPLES:,} examples Hypothesis.",
        "`minimal` is the longer of the shrunk traces of seeds 0 and 1, in events; `reports` are",
        "the public reports that the defect resembles.",
        "",
        "| defect | side | what is wrong | seeded | Hypothesis | minimal | found by | reports |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, record in records.items():
        seeded, hypothesis = (_spread(steps) for steps in _counts(record))
        cells = [
            name,
            record["side"],
            record["sentence"],
            seeded,
            hypothesis,
            str(max(record["minimal_events"].values(), default=0)),
            ", ".join(record["oracles"]),
            " ".join(record["reports"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
