"""The matrix: every cell can be hit, by what it says, and a driver that leaves some out is told."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from batches import small
from command import MODEL, clean
from schedules import play

from draftproof.fuzz.campaign.chunks import mixed_case
from draftproof.fuzz.coverage.catalogue import CATALOGUE
from draftproof.fuzz.coverage.matrix import CELLS, table
from draftproof.fuzz.coverage.observe import observe
from draftproof.fuzz.coverage.tally import Coverage
from draftproof.reference.vocabulary import Config
from draftproof.sim.events import AnyEvent, Step, Submit

BLIND = Path(__file__).parent / "data" / "never_samples.py"
ENOUGH = 2_000
"""Cases within which every cell is hit; a few hundred were enough for all seeds that were tried."""

FIRST, SAMPLED = (
    Submit(0, limit=40, imported=True),
    Submit(0, limit=40, imported=True, sampled=True),
)
PROMPT = Submit(1, prompt=4, limit=9)
RAGGED = small(confidence_scheduling=True)
REJECTION = small(use_rejection_sampling=True, vocab_size=6)
LOGITS = small(target_logits=True, vocab_size=8)


def cells(config: Config, *events: AnyEvent) -> list[str]:
    hits = observe(play(config, *events)).hits
    return [name.removeprefix("matrix/") for name in CELLS if name in hits]


@pytest.mark.parametrize(
    ("config", "events", "cell"),
    [
        (small(), (FIRST, Step(draft_len=0)), "greedy, r = 0, free, alone"),
        (small(), (FIRST, Step(draft_len=2)), "greedy, r < K, free, alone"),
        (small(), (FIRST, Step()), "greedy, r = K, free, alone"),
        (small(max_draft_len=1), (FIRST, Step()), "greedy, r = K, free, alone"),
        (small(), (FIRST, PROMPT, Step()), "greedy, r = K, free, mixed"),
        (small(), (SAMPLED, Step()), "strict, r = K, free, alone"),
        (REJECTION, (SAMPLED, Step()), "rejection, r = K, free, alone"),
        (REJECTION, (FIRST, Step()), "greedy, r = K, free, alone"),
        (RAGGED, (FIRST, Step(windows=(1,))), "greedy, window 1, free, alone"),
        (RAGGED, (FIRST, Step(windows=(2,))), "greedy, window < K + 1, free, alone"),
        (RAGGED, (FIRST, Step(windows=(4,))), "greedy, window K + 1, free, alone"),
        (LOGITS, (Submit(0, imported=True, grammar=1), Step()), "greedy, r = K, guided, alone"),
    ],
)
def test_a_cell_is_hit_by_what_it_says(
    config: Config, events: tuple[AnyEvent, ...], cell: str
) -> None:
    """If this fails, a cell is counted for something else."""
    assert cells(config, *events) == [cell]


def test_what_is_not_answered_hits_nothing() -> None:
    """If this fails, a cell counts as exercised though nothing of it was compared."""
    assert cells(small(), FIRST, Step(fault="accept")) == []
    assert cells(small(), Submit(0, prompt=3, limit=9), Step()) == []


def test_every_cell_is_hit_within_a_small_campaign() -> None:
    """If this fails, the matrix has a cell that cannot be hit, or hardly ever is."""
    coverage = Coverage()
    for index in range(ENOUGH):
        coverage.add(observe(mixed_case(0, index)))
        if not coverage.missing(CELLS):
            break
    assert coverage.missing(CELLS) == []
    assert CELLS.keys() <= CATALOGUE.keys()
    assert all("| 0 |" not in line for line in table(coverage.hits))


def test_a_driver_that_never_samples_leaves_out_exactly_that() -> None:
    """If this fails, a blind spot hides behind hits of something else."""
    coverage, driver = Coverage(), runpy.run_path(str(BLIND))["greedy_case"]
    for index in range(400):
        coverage.add(observe(driver(0, index)))
    sampled = [name for name in CELLS if not name.startswith("matrix/greedy")]
    assert coverage.missing(CELLS) == sampled
    assert sum("| 0 |" in line for line in table(coverage.hits)) == 12


def fuzz(*words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    more: dict[str, Any] = {"cwd": folder, "env": clean(), "capture_output": True, "text": True}
    command = [sys.executable, BLIND, "fuzz", "--implementation", MODEL, *words]
    return subprocess.run([str(word) for word in command], check=False, **more)


def test_a_blind_spot_ends_the_campaign_with_exit_code_6(tmp_path: Path) -> None:
    """If this fails, a night that never sampled anything is taken for a full one."""
    words = "--cases", 32, "--goal", "matrix", "--matrix", "matrix.md", "--driver"
    done = fuzz(*words, "uniform", folder=tmp_path)
    assert done.returncode == 6, done.stderr
    assert "a coverage goal was missed" in done.stdout
    page = (tmp_path / "matrix.md").read_text("utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| strict")]
    assert len(lines) == 6
    assert all(line.endswith("| 0 | 0 | 0 | 0 |") for line in lines)
    assert "| greedy, r = K | 0 |" not in page
    assert f"`{MODEL}` was checked" in page
