"""`docs/defects.json` is what `draftproof defects` finds, not what somebody once wrote down."""

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from draftproof.fuzz.cli import main
from draftproof.fuzz.commands import defects
from draftproof.fuzz.commands.defects import markdown, story
from draftproof.fuzz.defects import measuring
from draftproof.fuzz.defects.catalogue import CATALOGUE, CORE
from draftproof.fuzz.defects.found import page
from draftproof.fuzz.defects.measuring import (
    CORE_STEPS,
    DRIVERS,
    MEDIAN_STEPS,
    SEEDED_STEPS,
    measure,
)
from draftproof.fuzz.defects.reports import PLANTED
from draftproof.fuzz.ranks.defects import RANK_CATALOGUE

DOCS = Path(__file__).parents[2] / "docs"
TABLE: dict[str, Any] = json.loads((DOCS / "defects.json").read_text())
SEEDS = ("0", "1")
NAMES = tuple(PLANTED)
# The core is measured again, and a third of the others. Not those of graphs, for which capture is
# stood in for, nor those that take thousands of steps to find: they are slow.
SOON = 1_500
OTHERS = [defect for defect in CATALOGUE.values() if defect not in CORE]
AGAIN = tuple(
    defect.name
    for defect in (*CORE, *OTHERS[::3])
    if "defects.graphs" not in str(defect.implementation)
    and all(steps <= SOON for driver in DRIVERS for steps in TABLE[defect.name][driver].values())
)


COLUMNS = ("seeded", "hypothesis", "minimal_events", "first", "output")


@pytest.mark.parametrize("name", AGAIN)
def test_the_committed_counts_are_reproduced(name: str) -> None:
    """If this fails, make the table again: draftproof defects --workers 2 --save docs."""
    again = json.loads(json.dumps(measure(CATALOGUE[name], range(len(SEEDS)))))
    told = {column: {seed: TABLE[name][column][seed] for seed in SEEDS} for column in COLUMNS}
    assert {column: again[column] for column in COLUMNS} == told


def test_every_defect_is_found_from_every_seed_by_both_drivers() -> None:
    """If this fails, a defect lives through the budget, or the core's seeds are not 20."""
    assert list(TABLE) == list(NAMES)
    core = {defect.name for defect in CORE}
    for name, record in TABLE.items():
        for driver in DRIVERS:
            steps = record[driver]
            if driver == "hypothesis" and name in RANK_CATALOGUE:
                continue  # one driver knows schedules for several ranks
            assert list(steps) == [str(s) for s in range(20 if name in core else 2)], name
            assert None not in steps.values(), (name, driver)
            most = CORE_STEPS if name in core else SEEDED_STEPS
            assert max(steps.values()) <= most, (name, driver)
        assert median(record["seeded"].values()) <= MEDIAN_STEPS, name
        assert record["found"], name


def test_without_recordings_it_is_said_that_nothing_was_shown_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, what finds a defect seems to depend on the folder one stands in."""
    name = NAMES[0]
    monkeypatch.setattr(defects, "_measure", lambda name, **how: TABLE[name])
    assert main(["defects", name]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.chdir(tmp_path)
    assert main(["defects", name]) == 0
    assert "no tests/data/recordings here" in capsys.readouterr().err


def test_the_pages_are_the_table() -> None:
    """If this fails, docs/defects.md or docs/found.md was edited by hand."""
    assert (DOCS / "defects.md").read_text() == markdown(TABLE)
    assert (DOCS / "found.md").read_text() == page(TABLE)


@pytest.mark.parametrize(
    ("name", "budget"),
    [("residual-not-clipped", "SEEDED_STEPS"), ("stop-ignored", "CORE_STEPS")],
)
def test_a_defect_that_lives_is_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str, budget: str
) -> None:
    """If this fails, a campaign that finds nothing looks like one that finds everything."""
    monkeypatch.setattr(defects, budget, 1)
    monkeypatch.setattr(measuring, "HYPOTHESIS_EXAMPLES", 1)
    assert main(["defects", name, "--seeds", "1"]) == 6
    assert capfd.readouterr().out.startswith(f"{name}: NOT FOUND; steps found from 0")


def test_a_story_says_how_soon_a_defect_is_found() -> None:
    """If this fails, `draftproof defects` keeps to itself the cases and seconds that it took."""
    told = story(
        {
            **TABLE["frame-off-by-one"],
            "cases": {"seeded": {"0": 1, "1": 4}, "hypothesis": {"0": 2, "1": 2}},
            "seconds": {"seeded": {"0": 0.2, "1": 1.2}, "hypothesis": {"0": 0.1, "1": 0.2}},
            "seeded": {"0": 7, "1": 9},
            "hypothesis": {"0": 3, "1": 30},
        }
    )
    assert told.startswith(
        "found in cases 2.5 (worst 4) seeded, 2 (worst 2) Hypothesis; "
        "seconds 0.7 (worst 1.2) seeded, 0.15 (worst 0.2) Hypothesis; "
        "steps 8 (worst 9) seeded, 16.5 (worst 30) Hypothesis; "
    )
    ranks = next(record for name, record in TABLE.items() if name in RANK_CATALOGUE)
    assert " seeded, not tried Hypothesis; steps " in story(ranks).partition("; seconds ")[2]


def test_a_saved_trace_names_its_defect_and_replays(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """If this fails, what `draftproof defects --traces` saves cannot be looked at again."""
    for name in ("frame-off-by-one", "stale-drafts"):
        assert main(["defects", name, "--seeds", "1", "--traces", str(tmp_path)]) == 0
        assert main(["replay", str(tmp_path / f"{name}-0.jsonl")]) == 1
    assert "found by     invariant" in capfd.readouterr().out
