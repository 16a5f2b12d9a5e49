"""`docs/defects.json` is what `draftproof defects` finds, not what somebody once wrote down."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from draftproof.fuzz.catalogue import CATALOGUE
from draftproof.fuzz.cli import main
from draftproof.fuzz.commands.defects import markdown, measure, minimal_trace
from draftproof.fuzz.drivers import find_seeded
from draftproof.sim.traces import cut

DOCS = Path(__file__).parents[2] / "docs"
TABLE: dict[str, Any] = json.loads((DOCS / "defects.json").read_text())
SEEDS = ("0", "1")
# Defects of graphs need the stand-in for capture, which is slow; test_defects.py finds them.
NAMES = tuple(
    name for name, defect in CATALOGUE.items() if "defects.graphs" not in str(defect.implementation)
)


@cache
def measured(name: str) -> dict[str, Any]:
    """As JSON gives it back."""
    record: dict[str, Any] = json.loads(json.dumps(measure(CATALOGUE[name], range(len(SEEDS)))))
    return record


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("column", ["seeded", "hypothesis", "minimal_events"])
def test_the_committed_counts_are_reproduced(name: str, column: str) -> None:
    """If this fails, make the table again: draftproof defects --seeds 20 --save docs."""
    assert measured(name)[column] == {seed: TABLE[name][column][seed] for seed in SEEDS}


def test_every_defect_is_found_from_every_seed_by_both_drivers() -> None:
    """If this fails, a defect lives through the budget, or the table is not that of 20 seeds."""
    assert list(TABLE) == list(NAMES)
    for name, record in TABLE.items():
        for driver in ("seeded", "hypothesis"):
            assert list(record[driver]) == [str(seed) for seed in range(20)], name
            assert None not in record[driver].values(), (name, driver)


def test_the_page_is_the_table() -> None:
    """If this fails, docs/defects.md was edited by hand."""
    assert (DOCS / "defects.md").read_text() == markdown(TABLE)


@pytest.mark.parametrize("name", NAMES)
def test_no_event_of_a_minimal_trace_can_go(name: str) -> None:
    """If this fails, a reader of a shrunk trace is shown events that have nothing to do with it."""
    defect = CATALOGUE[name]
    subject = defect.subject()
    found = find_seeded(subject, 0)
    assert found is not None
    trace = minimal_trace(defect, subject, found)
    whole = subject.failure(trace)
    assert whole is not None
    for i in range(len(trace.events)):
        rest = subject.failure(cut(trace, trace.events[:i] + trace.events[i + 1 :]))
        assert rest is None or rest.signature != whole.signature


def test_a_saved_trace_names_its_defect_and_replays(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """If this fails, what `draftproof defects --traces` saves cannot be looked at again."""
    for name in ("frame-off-by-one", "stale-drafts"):
        assert main(["defects", name, "--seeds", "1", "--traces", str(tmp_path)]) == 0
        assert main(["replay", str(tmp_path / f"{name}-0.jsonl")]) == 1
    assert "found by     invariant" in capfd.readouterr().out
