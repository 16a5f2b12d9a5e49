"""`draftproof defects`: plants each known defect and shows how soon it is found, and by what."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any

from draftproof.fuzz.defects.catalogue import CATALOGUE, CORE
from draftproof.fuzz.defects.found import VERDICTS, page
from draftproof.fuzz.defects.measuring import (
    CORE_SEEDS,
    CORE_STEPS,
    HYPOTHESIS_EXAMPLES,
    MEDIAN_STEPS,
    RECORDINGS,
    SEEDED_STEPS,
    SEEDS,
    Record,
    measure,
    spread,
)
from draftproof.fuzz.defects.reports import PLANTED
from draftproof.fuzz.ranks.defects import RANK_CATALOGUE
from draftproof.fuzz.ranks.measuring import measure_ranks
from draftproof.sim.errors import MISSED, UsageError
from draftproof.sim.files import check_writable, write_whole


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 if every defect is found from every seed, within the budget, else 6."""
    unknown = [name for name in arguments.names if name not in PLANTED]
    if unknown:
        raise UsageError(f"no planted defect {unknown[0]!r}; there are {', '.join(PLANTED)}")
    for folder in (arguments.save, arguments.traces):
        if folder is not None:
            check_writable(folder)
    names = arguments.names or list(PLANTED)
    records = {}
    if not RECORDINGS.is_dir():
        print(f"no {RECORDINGS} here, so no defect is shown to recordings", file=sys.stderr)
    with TemporaryDirectory() as scratch:
        traces = Path(scratch) if arguments.traces is None else arguments.traces
        with _processes(arguments.workers) as run_each:
            for name, record in zip(
                names,
                run_each(partial(_measure, seeds=arguments.seeds, traces=traces), names),
                strict=True,
            ):
                records[name] = record
                if not arguments.json:
                    print(f"{name}: {story(record)}", flush=True)
        if arguments.save is not None:
            keep(records, traces, arguments.save)
    if arguments.json:
        print(json.dumps(records, indent=1))
    return 0 if all(record["found"] for record in records.values()) else MISSED


@contextmanager
def _processes(count: int) -> Iterator[Callable[..., Iterable[Record]]]:
    """A `map` over so many processes, each of which has one thread."""
    if count == 1:
        yield map
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ProcessPoolExecutor(count, get_context("spawn")) as pool:
        yield pool.map


def _measure(name: str, seeds: int | None, traces: Path) -> Record:
    core = name in {defect.name for defect in CORE}
    numbers = range(seeds or (CORE_SEEDS if core else SEEDS))
    if name in RANK_CATALOGUE:
        return measure_ranks(RANK_CATALOGUE[name], numbers, traces)
    return measure(CATALOGUE[name], numbers, traces, CORE_STEPS if core else SEEDED_STEPS)


def keep(records: dict[str, Record], traces: Path, folder: Path) -> None:
    """The record, its two pages, and of each defect the shortest minimal trace."""
    write_whole((json.dumps(records, indent=1) + "\n").encode(), folder / "defects.json")
    write_whole(markdown(records).encode(), folder / "defects.md")
    write_whole(page(records).encode(), folder / "found.md")
    (folder / "traces").mkdir(exist_ok=True)
    for name, record in records.items():
        if record["trace"] is not None:
            copyfile(traces / f"{name}-{record['trace']}.jsonl", folder / f"traces/{name}.jsonl")


def story(record: Record) -> str:
    """One defect in a line: found or not, how soon, how small, by what, and if output shows it.

    Cases, seconds and steps until found: the median and the worst of the seeds. Seconds, of the
    search alone, are those of the machine.
    """
    if not record["found"]:
        head = "NOT FOUND"
    else:
        head = f"found in cases {_by_driver(record['cases'])}; "
        head += f"seconds {_by_driver(record['seconds'])}"
    events = max(record["minimal_events"].values(), default=0)
    first = sorted({f"{oracle}: {field}" for oracle, field in record["first"].values()})
    output = sorted({VERDICTS[one] for one in record["output"].values()} or {VERDICTS[""]})
    return (
        f"{head}; steps {_by_driver(record)}; at most {events} events; "
        f"first broken {', '.join(first) or 'nothing'}; "
        f"shown by output alone: {', '.join(output)}; "
        f"found by {', '.join(record['oracles']) or 'nothing'}"
    )


def _by_driver(counts: Mapping[str, Any]) -> str:
    """By seed, of each driver."""
    return f"{spread(counts['seeded'])} seeded, {spread(counts['hypothesis'])} Hypothesis"


def markdown(records: dict[str, Record]) -> str:
    """The table for the docs."""
    lines = [
        "# Planted defects",
        "",
        "Made by `draftproof defects --workers 2 --save docs`.",
        "",
        f"Steps until found: median and worst over {CORE_SEEDS} seeds for the core, the first ones",
        f"of either side, and over {SEEDS} for the others. Each has to be found from every seed",
        f"within {SEEDED_STEPS:,} steps, of the core within {CORE_STEPS:,}, and in the median",
        f"within {MEDIAN_STEPS:,}.",
        f"Hypothesis draws at most {HYPOTHESIS_EXAMPLES:,} examples.",
        "`minimal` is the longer of the shrunk traces of seeds 0 and 1, in events; `reports` are",
        "the public reports that the defect resembles ([which are found](found.md)).",
        "",
        "| defect | side | what is wrong | seeds | seeded | Hypothesis | minimal | found by "
        "| reports |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, record in records.items():
        cells = [
            name,
            record["side"],
            record["sentence"],
            str(len(record["seeded"])),
            spread(record["seeded"]),
            spread(record["hypothesis"]),
            str(max(record["minimal_events"].values(), default=0)),
            ", ".join(record["oracles"]),
            " ".join(record["reports"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
