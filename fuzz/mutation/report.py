"""The table of a run, as JSON and for people."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from statistics import median
from typing import Any

from draftproof.fuzz.mutation.children import Verdict
from draftproof.fuzz.mutation.scope import SIDES, STEPS, Side
from draftproof.fuzz.mutation.survivors import GOAL, NOT_SEEN

Record = dict[str, Any]


def record(verdicts: Mapping[str, Verdict], reasons: Mapping[str, str]) -> Record:
    """Everything that is known of every mutant, and the sums."""
    mutants = {name: asdict(verdict) for name, verdict in verdicts.items()}
    for name in mutants:
        if name in reasons:
            mutants[name]["listed"] = reasons[name]
    return {
        "sums": {side.name: _sums(side, verdicts, reasons) for side in SIDES},
        "mutants": mutants,
    }


def as_json(record: Record) -> str:
    """A line for each mutant, so that two tables can be compared."""
    rows = (f"{json.dumps(name)}: {json.dumps(told)}" for name, told in record["mutants"].items())
    mutants = ",\n".join(rows)
    return f'{{"sums": {json.dumps(record["sums"], indent=1)},\n"mutants": {{\n{mutants}\n}}}}\n'


def own(side: Side, verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """Those of one side's files."""
    folder = f"{side.folder}/"
    return {name: verdict for name, verdict in verdicts.items() if name.startswith(folder)}


def score(sums: Record) -> float:
    """Killed of those that are neither equivalent nor stillborn nor timed out, in per cent."""
    judged = sums["killed"] + sums["survived"]
    return 100.0 * sums["killed"] / judged if judged else 100.0


def below(record: Record) -> list[str]:
    """The sides that miss the goal."""
    return [
        f"{name}: {score(sums):.1f} % killed, but the goal is {GOAL:g} %"
        for name, sums in record["sums"].items()
        if score(sums) < GOAL
    ]


def _sums(side: Side, verdicts: Mapping[str, Verdict], reasons: Mapping[str, str]) -> Record:
    mine = own(side, verdicts)
    fates = Counter(
        "equivalent"
        if verdict.fate == "survived" and _equivalent(reasons.get(name))
        else verdict.fate
        for name, verdict in mine.items()
    )
    killed = [verdict for verdict in mine.values() if verdict.fate == "killed"]
    steps = [verdict.steps for verdict in killed if verdict.steps]
    return {
        "mutants": len(mine),
        "killed": fates["killed"],
        "survived": fates["survived"],
        "equivalent": fates["equivalent"],
        "timed out": fates["timed out"],
        "stillborn": fates["stillborn"],
        "by": dict(sorted(Counter(verdict.oracle for verdict in killed).items())),
        "steps": {"median": median(steps or [0]), "most": max(steps or [0])},
    }


def _equivalent(reason: str | None) -> bool:
    return reason is not None and not reason.startswith(NOT_SEEN)


def lines(record: Record) -> list[str]:
    """The sums, a line for each side."""
    return [
        f"{name}: {sums['mutants']} mutants, {sums['killed']} killed, {sums['survived']} survived, "
        f"{sums['equivalent']} equivalent, {sums['timed out']} timed out, "
        f"{sums['stillborn']} stillborn; {score(sums):.1f} % killed"
        for name, sums in record["sums"].items()
        if sums["mutants"]
    ]


def markdown(record: Record, command: str) -> str:
    """The page for the docs."""
    told = [
        "# Mutants",
        "",
        f"Made by `{command}`. Each mutant is one small change to one file: another operator or",
        "comparison, a constant or a boundary off by one, min for max, a condition turned round, a",
        "statement or a keyword argument left out. What it is judged by must object within",
        f"{STEPS:,} steps. Mutants of the worker are judged by the lockstep alone; those of the",
        "model and of the engine by recordings, pinned examples and invariants over the journal,",
        "never by comparison with the worker.",
        "",
        "`killed`: per cent of those that are not equivalent, nor timed out (in an endless loop),",
        "nor stillborn (cannot be imported, made or called). `steps`: median and most.",
        "",
        "| side | mutants | killed | survived | equivalent | timed out | stillborn | by | steps |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, sums in record["sums"].items():
        by = ", ".join(f"{oracle} {count}" for oracle, count in sums["by"].items())
        cells = [name, sums["mutants"], f"{sums['killed']} ({score(sums):.1f} %)"]
        cells += [sums[fate] for fate in ("survived", "equivalent", "timed out", "stillborn")]
        cells += [by, f"{sums['steps']['median']:g}, {sums['steps']['most']}"]
        told.append(f"| {' | '.join(map(str, cells))} |")
    told += ["", "## Files", "", *_files(record), ""]
    told += ["## Left out", ""]
    told += [f"* {what}: {why}" for side in SIDES for what, why in side.excluded()]
    told += ["", "## Survivors", ""]
    survivors = [(n, m) for n, m in record["mutants"].items() if m["fate"] == "survived"]
    told += [f"* `{name}`: {mutant.get('listed', 'not listed')}" for name, mutant in survivors]
    return "\n".join(told) + "\n"


def _files(record: Record) -> Iterable[str]:
    yield "| file | mutants | killed | survived, or listed | timed out | stillborn |"
    yield "|---|---|---|---|---|---|"
    files: dict[str, Counter[str]] = {}
    for name, mutant in record["mutants"].items():
        files.setdefault(name.partition("::")[0], Counter())[mutant["fate"]] += 1
    for path, fates in files.items():
        counts = [fates[fate] for fate in ("killed", "survived", "timed out", "stillborn")]
        yield f"| `{path}` | {sum(fates.values())} | {' | '.join(map(str, counts))} |"
