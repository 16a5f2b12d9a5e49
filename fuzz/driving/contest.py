"""How soon each driver meets rare points, and from how many seeds it finds one-sided defects.

Run as `python -m draftproof.fuzz.driving.contest --save docs` it writes `drivers.json` and, from
it, `drivers.md`. What the JSON says of the driver that is no longer here, and of the swarm of its
day, stays.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from draftproof.fuzz.bench.figures import geometric_mean
from draftproof.fuzz.campaign.chunks import DRIVERS
from draftproof.fuzz.coverage.rare import RARE, rare_points
from draftproof.fuzz.driving.one_sided import ONE_SIDED
from draftproof.sim.engine import Engine
from draftproof.sim.files import write_whole
from draftproof.sim.run import Run

SEEDS, STEPS = 5, 100_000
DEFECT_SEEDS, DEFECT_STEPS = 20, 5_000
GOAL = 5
"""Times as many seeds as uniform choices need, for defects that wake in one-sided runs."""

Medians = Mapping[str, float]
"""Rare point -> steps, median over seeds."""
Found = Mapping[str, int]
"""Defect -> from how many seeds it was found."""

PAGE = """\
# Which driver finds what

Made by `python -m draftproof.fuzz.driving.contest --save docs --steps {given}`.

## Rare points

Steps until a rare point is first met: median over {seeds} seeds; a campaign that does not meet it
within {steps:,} steps counts as {steps:,}. The list of points
([`fuzz/coverage/rare.py`](../fuzz/coverage/rare.py)) was written before any driver but the uniform
one, which the history does not show: list and drivers came in one commit. Half are long one-sided
runs, half are long lives in which several things happen.

{points}

{ratios}

## Defects that need long one-sided runs

Planted in the model, each of them asleep until steps of one kind came in a row
([`fuzz/driving/one_sided.py`](../fuzz/driving/one_sided.py)). From how many of {defect_seeds} seeds
checking finds it within {defect_steps:,} steps:

{defects}

{seeds_ratio}

## No coverage-guided driver

There was one. It kept traces that made a new abstract transition, and spliced them, repeated
stretches of them, or continued their heads with new events; one case in four was a new one of the
swarm. To stay it had to need 1.5 times fewer steps than swarm on the rare points, in the geometric
mean; it needed {guided:.2f} times as many. Measured by the same command before it was removed, with
the events of that day (no overlapped steps, fewer faults), both drivers with at most 200,000 steps.
Of some 1,050 transitions that 110,000 steps of the default driver met then, 700 were met in the
first 2,000 and 990 in the first 15,000; after that they guided nowhere.

## The default

`mixed` takes uniform and swarm cases in turns: what needs many things to happen in one life is met
sooner by uniform cases, what needs one thing many times by the swarm, and a night should not depend
on which of them is wanted.
"""


def steps_until(cases: Iterator[Run], most: int) -> dict[str, int]:
    """Steps until each rare point is first met; `most` if it is not met by then."""
    found: dict[str, int] = {}
    steps = 0
    while steps < most and len(found) < len(RARE):
        run = next(cases)
        for name, step in rare_points(run).items():
            found.setdefault(name, min(steps + step + 1, most))
        steps += len(run.steps)
    return {name: found.get(name, most) for name in RARE}


def cases_of(driver: str, seed: int) -> Iterator[Run]:
    """What a campaign of one driver runs, without end."""
    return (DRIVERS[driver](seed, index, Engine) for index in count())


def contest(driver: str, seeds: Sequence[int], most: int) -> Medians:
    """What one driver needs to meet the rare points."""
    runs = [steps_until(cases_of(driver, seed), most) for seed in seeds]
    return {point: median(run[point] for run in runs) for point in RARE}


def seeds_that_find(driver: str, seeds: Sequence[int], most: int) -> Found:
    """From how many seeds one driver finds each one-sided defect within so many steps."""
    found = dict.fromkeys((defect.name for defect in ONE_SIDED), 0)
    for seed in seeds:
        asleep, steps, cases = list(ONE_SIDED), 0, cases_of(driver, seed)
        while steps < most and asleep:
            run = next(cases)
            for defect in [defect for defect in asleep if defect.found(run)]:
                asleep.remove(defect)
                found[defect.name] += 1
            steps += len(run.steps)
    return found


def advantage(one: Medians, over: Medians) -> float:
    """Geometric mean over the points of how many times fewer steps one driver needs."""
    return geometric_mean([over[point] / one[point] for point in RARE])


def worst(record: Mapping[str, Medians], name: str) -> float:
    """How many times more steps a driver needs at its worst than the better of the plain two."""
    best = {point: min(record["uniform"][point], record["swarm"][point]) for point in RARE}
    return max(record[name][point] / best[point] for point in RARE)


def markdown(record: Mapping[str, Any]) -> str:
    """The page of what `main` has measured."""
    points, defects, then = record["points"], record["defects"], record["then"]
    most = record["steps"]
    return PAGE.format(
        seeds=SEEDS,
        steps=most,
        given=most,
        defect_seeds=DEFECT_SEEDS,
        defect_steps=DEFECT_STEPS,
        points="\n".join(_table("rare point", RARE, points, most)),
        ratios="\n".join(_ratios(points)),
        defects="\n".join(_table("wakes behind", {d.name: d.sentence for d in ONE_SIDED}, defects)),
        seeds_ratio=_seeds_ratio(defects["uniform"], defects["swarm"]),
        guided=advantage(then["swarm"], then["guided"]),
    )


def _table(
    head: str, rows: Mapping[str, str], columns: Mapping[str, Medians], most: float = float("inf")
) -> Iterator[str]:
    yield f"| {head} | " + " | ".join(columns) + " |"
    yield "|---|" + "---:|" * len(columns)
    for name, sentence in rows.items():
        cells = [_cell(column[name], most) for column in columns.values()]
        yield f"| {name}: {sentence} | {' | '.join(cells)} |"


def _cell(value: float, most: float) -> str:
    return f"{value:,.0f}" if value < most else f"> {most:,.0f}"


def _ratios(points: Mapping[str, Medians]) -> Iterator[str]:
    yield "How many times fewer steps, geometric mean over the points:"
    yield ""
    for one in ("swarm", "mixed"):
        yield f"* uniform / {one}: {advantage(points[one], points['uniform']):.2f}"
    for name in ("uniform", "swarm", "mixed"):
        told = f"1 / {worst(points, name):,.0f}"
        yield f"* {name}, at its worst, of the better of uniform and swarm: {told}"


def hard(uniform: Found) -> list[str]:
    """Defects that uniform choices do not find from half of the seeds."""
    return [name for name, seeds in uniform.items() if 2 * seeds < DEFECT_SEEDS]


def _seeds_ratio(uniform: Found, swarm: Found) -> str:
    names = hard(uniform)
    every = [sum(found.values()) for found in (uniform, swarm)]
    less, more = (sum(found[name] for name in names) for found in (uniform, swarm))
    ratio = f"{more / less:.1f} times as many" if less else "where uniform has none"
    reached = "reached" if more >= GOAL * less else "not reached"
    return (
        f"* all together: uniform from {every[0]} seeds, swarm from {every[1]}\n"
        f"* the {len(names)} that uniform does not find from half of the seeds: uniform {less}, "
        f"swarm {more},\n  {ratio}; the goal, {GOAL} times, is {reached}"
    )


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=STEPS, help="to meet rare points in")
    arguments = parser.parse_args()
    path, most = arguments.save / "drivers.json", arguments.steps
    if not path.is_file():
        parser.error(f"{path} is missing: it keeps what the guided driver needed, which is gone")
    then = json.loads(path.read_text())["then"]
    found = {d: seeds_that_find(d, range(DEFECT_SEEDS), DEFECT_STEPS) for d in DRIVERS}
    points = {d: contest(d, range(SEEDS), most) for d in DRIVERS}
    record = {"steps": most, "points": points, "defects": found, "then": then}
    write_whole((json.dumps(record, indent=1) + "\n").encode(), path)
    write_whole(markdown(record).encode(), arguments.save / "drivers.md")


if __name__ == "__main__":
    main()
