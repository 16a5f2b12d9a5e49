"""A campaign over every fault on one to four ranks, and the table of what held behind each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from draftproof.fuzz.coverage.ranks import RANK_POINTS, rank_points
from draftproof.fuzz.defects.measuring import Record
from draftproof.fuzz.ranks.cases import DISTURB, RANKS, Behind, RankSubject, behind, seeded_world
from draftproof.fuzz.refused import refuse
from draftproof.reference.vocabulary import ConfigError
from draftproof.sim.faults import LATE, SITES
from draftproof.sim.lockstep import Checked
from draftproof.sim.ranks import World

ROWS = (*SITES, LATE)
"""What has to happen."""


@dataclass(slots=True)
class Table:
    """What happened in the worker, and what was compared behind it.

    happened: faults that the worker met, by place and by the kind that it was in the end; late
    results; patterns: how many forwards were which of `RANK_POINTS`; steps: forwards, each rank's
    counted; refused: configurations that the factory does not support, by its reason.
    """

    happened: Counter[tuple[str, str]] = field(default_factory=Counter)
    behind: Behind = field(default_factory=Behind)
    worlds: Counter[int] = field(default_factory=Counter)
    patterns: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    faults_without_seam: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def add(self, world: World, checked: Checked, found: Behind) -> None:
        """Count one world that passed."""
        self.worlds[len(world.ranks)] += 1
        self.patterns += rank_points(world)
        self.steps += checked.steps
        self.faults_without_seam += checked.faults_without_seam
        self.happened += checked.faults
        self.behind.later += found.later
        self.behind.undone += found.undone
        self.behind.peers += found.peers
        self.behind.steps += found.steps

    @property
    def faults(self) -> int:
        """How many there were."""
        return self.happened.total() - self.happened[LATE]

    @property
    def missed(self) -> list[tuple[str, str]]:
        """What never happened."""
        return [site for site in ROWS if not self.happened[site]]

    @property
    def unmet(self) -> list[str]:
        """Patterns of ranks that never came."""
        return [name for name in RANK_POINTS if not self.patterns[name]]


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
        rounds = checked.steps // len(world.ranks)
        table.add(world, checked, behind(world, subject.make, rounds))
    return table


def markdown(table: Table, command: str, defects: dict[str, Record]) -> str:
    """The page for the docs."""
    worlds = ", ".join(f"{n} of {ranks}" for ranks, n in sorted(table.worlds.items()))
    lines = [
        "# Faults",
        "",
        f"Made by `{command}`. {table.steps:,} steps, each rank's counted, in worlds of ranks",
        f"({worlds}); {table.faults:,} faults, {table.happened[LATE]:,} results that came one step",
        "late. In every world that is counted here, all of this held:",
        "",
        "* results and states of each rank's worker were those of the model, invariants included;",
        "* the ranks' barrier calls agreed in every step, so no rank would have waited in vain;",
        "* a result that came late went once to the life that it was made for, or to nobody;",
        "* once nothing was disturbed any more, every live request was done within the bound of",
        f"  `sim/liveness.py`: {table.behind.steps:,} steps in all.",
        "",
        "*Happened*: the worker came to that place, and that was what went wrong there; a corrupt",
        "answer counts as what was corrupted in the end. Behind it, bit for bit: *later*, rows of",
        "requests that were admitted behind it, compared with those of a new worker (behind late",
        "results alone they are not); *warm-up*, rows behind a fault in a warm-up or capture,",
        "compared with those of a worker that never made any; *peers*, steps of ranks one of whose",
        "peers had the fault, compared with those of a rank by itself.",
        "",
        "| place | kind | happened | later | warm-up | peers |",
        "|---|---|---:|---:|---:|---:|",
    ]
    counts = (table.happened, table.behind.later, table.behind.undone, table.behind.peers)
    lines += [
        f"| {place} | {kind} | {' | '.join(f'{count[place, kind]:,}' for count in counts)} |"
        for place, kind in ROWS
    ]
    lines += ["", *_patterns(table), "", *_defects(defects)]
    return "\n".join(lines) + "\n"


def _patterns(table: Table) -> Iterable[str]:
    """How often ranks met in which way."""
    yield "## Patterns of ranks"
    yield ""
    yield "Forwards in which it happened, in worlds of two ranks or more; if one never did, the"
    yield "campaign ends with exit code 6."
    yield ""
    yield "| pattern | what it is | forwards |"
    yield "|---|---|---:|"
    for name, sentence in RANK_POINTS.items():
        yield f"| {name.removeprefix('rank/')} | {sentence} | {table.patterns[name]:,} |"


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
