"""A campaign over every fault on one to four ranks, and the table of what held behind each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from draftproof.fuzz.measuring import Record
from draftproof.fuzz.rank_cases import RANKS, Behind, RankSubject, behind, seeded_world
from draftproof.fuzz.refused import refuse
from draftproof.reference.vocabulary import ConfigError
from draftproof.sim.faults import SITES
from draftproof.sim.ranks import World

DISTURB = 6
"""One forward in so many has a fault on one of its ranks, beside those of any schedule."""


@dataclass(slots=True)
class Table:
    """What was injected, and what was compared behind it. steps: forwards, each rank's counted;
    refused: configurations that the factory does not support, by its reason."""

    injected: Counter[tuple[str, str]] = field(default_factory=Counter)
    behind: Behind = field(default_factory=Behind)
    worlds: Counter[int] = field(default_factory=Counter)
    steps: int = 0
    faults_without_seam: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def add(self, world: World, found: Behind) -> None:
        """Count one world that passed."""
        self.worlds[len(world.ranks)] += 1
        for run in world.ranks:
            self.injected.update((step.fault, step.kind) for step in run.steps if step.fault)
        self.behind.later += found.later
        self.behind.undone += found.undone
        self.behind.peers += found.peers
        self.behind.steps += found.steps

    @property
    def missed(self) -> list[tuple[str, str]]:
        """Faults that never came."""
        return [site for site in SITES if not self.injected[site]]


def run_campaign(
    subject: RankSubject,
    seed: int,
    steps: int,
    begin: Callable[[World], None] = lambda world: None,
    table: Table | None = None,
) -> Table:
    """So many steps. `begin` is called before each world is judged. Raises the first Divergence,
    and ImplementationError if the factory supports no configuration."""
    assert subject.make is not None
    table, index = table or Table(), 0
    while table.steps < steps:
        world = seeded_world(seed, index, 1 + index % RANKS, disturb=DISTURB)
        begin(world)
        index += 1
        try:
            checked = subject.judge_world(world)
        except ConfigError as error:
            refuse(table.refused, error, table.steps)
            continue
        table.steps += checked.steps
        table.faults_without_seam += checked.faults_without_seam
        table.add(world, behind(world, subject.make))
    return table


def markdown(table: Table, command: str, defects: dict[str, Record]) -> str:
    """The page for the docs."""
    worlds = ", ".join(f"{n} of {ranks}" for ranks, n in sorted(table.worlds.items()))
    lines = [
        "# Faults",
        "",
        f"Made by `{command}`. {table.steps:,} steps, each rank's counted, in worlds of ranks",
        f"({worlds}); {table.injected.total():,} faults. In every world that is counted here,",
        "all of this held:",
        "",
        "* results and states of each rank's worker were those of the model, invariants included;",
        "* the ranks' barrier calls agreed in every step, so no rank would have waited in vain;",
        "* once nothing was disturbed any more, every live request was done within the bound of",
        f"  `sim/liveness.py`: {table.behind.steps:,} steps in all.",
        "",
        "And behind each fault, bit for bit: *later*, rows of requests that were admitted behind",
        "a failed step, compared with those of a new worker; *warm-up*, rows behind a fault in a",
        "warm-up or capture, compared with those of a worker that never made any; *peers*, steps",
        "of ranks one of whose peers had the fault, compared with those of a rank by itself.",
        "",
        "| place | kind | injected | later | warm-up | peers |",
        "|---|---|---:|---:|---:|---:|",
    ]
    counts = (table.injected, table.behind.later, table.behind.undone, table.behind.peers)
    lines += [
        f"| {place} | {kind} | {' | '.join(f'{count[place, kind]:,}' for count in counts)} |"
        for place, kind in SITES
    ]
    lines += ["", *_defects(defects)]
    return "\n".join(lines) + "\n"


def _defects(records: dict[str, Record]) -> Iterable[str]:
    """The planted defects of ranks, as `draftproof defects` finds them."""
    yield "## Planted defects of ranks"
    yield ""
    yield "Steps until found, each rank's counted, by seed; `minimal`: the longest shrunk schedule."
    yield ""
    yield "| defect | side | what is wrong | steps | minimal | found by | reports |"
    yield "|---|---|---|---|---:|---|---|"
    for name, record in records.items():
        steps = ", ".join(str(count) for count in record["seeded"].values())
        cells = [
            name,
            record["side"],
            record["sentence"],
            steps,
            str(max(record["minimal_events"].values(), default="")),
            ", ".join(record["oracles"]),
            " ".join(record["reports"]),
        ]
        yield f"| {' | '.join(cells)} |"
