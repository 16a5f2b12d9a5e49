"""Whole runs: a good one, and one that turns red for each weakness of an oracle."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

# Of its own time a run takes some seconds; on a busy machine it waits for more.
pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).resolve().parents[2]
START = (
    "import sys; from draftproof.fuzz.mutation.__main__ import main; sys.exit(main(sys.argv[1:]))"
)

BLIND_TO_STATES = "import draftproof.sim.lockstep as l; l.state_difference = lambda *_: None; "
"""A weakness: the lockstep compares results only, and whatever it finds in a state is right."""


def mutation(*words: str, weakness: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", weakness + START, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def empty(folder: Path) -> Path:
    path = folder / "list.txt"
    path.write_text("", "utf-8")
    return path


def test_a_run_in_which_everything_is_killed(tmp_path: Path) -> None:
    """If this fails, no run is good, or its table does not say what it saw."""
    found = mutation(
        "gpu/advance.py", "--every", "8", "--list", str(empty(tmp_path)), "--save", str(tmp_path)
    )
    assert (found.returncode, found.stdout.count("survived, and is not listed")) == (0, 0)
    table = json.loads((tmp_path / "mutation.json").read_text("utf-8"))
    assert {mutant["fate"] for mutant in table["mutants"].values()} == {"killed"}
    assert {mutant["oracle"] for mutant in table["mutants"].values()} == {"lockstep"}
    assert table["sums"]["worker"]["mutants"] == len(table["mutants"]) > 2
    assert "| worker |" in (tmp_path / "mutation.md").read_text("utf-8")


def test_a_lockstep_that_is_blind_to_states_is_found_out(tmp_path: Path) -> None:
    """If this fails, half of an oracle can be switched off, and mutation does not notice."""
    words = ("gpu/attention.py", "--every", "10", "--list", str(empty(tmp_path)))
    assert mutation(*words).returncode == 0
    found = mutation(*words, weakness=BLIND_TO_STATES)
    assert found.returncode == 6
    assert "survived, and is not listed: gpu/attention.py::" in found.stdout


def test_oracles_that_are_switched_off_are_found_out(tmp_path: Path) -> None:
    """If this fails, mutants of the engine are not judged by its oracles at all."""
    words = ("sim/requests.py", "--every", "10", "--list", str(empty(tmp_path)))
    found = mutation(*words, "--without", "journal", "--without", "pinned")
    assert found.returncode == 6
    assert "0 killed" in found.stdout


def test_a_listed_mutant_that_is_killed_fails_the_run(tmp_path: Path) -> None:
    """If this fails, reasons outlive what they were reasons for."""
    words = ("gpu/advance.py", "--every", "8", "--save", str(tmp_path))
    mutation(*words, "--list", str(empty(tmp_path)))
    name = next(iter(json.loads((tmp_path / "mutation.json").read_text("utf-8"))["mutants"]))
    path = empty(tmp_path)
    path.write_text(f"{name} | it makes no difference\n", "utf-8")
    found = mutation(*words, "--list", str(path))
    assert found.returncode == 6
    assert f"listed, but killed by lockstep: {name}" in found.stdout


def test_a_project_that_is_wrong_as_it_is_has_no_score() -> None:
    """If this fails, every mutant of a broken project counts as killed."""
    weakness = "import draftproof.sim.lockstep as l; l.state_difference = lambda *_: 1 / 0; "
    found = mutation("gpu/advance.py", "--every", "8", weakness=weakness)
    assert found.returncode == 1
    assert "worker, as it is, is killed by lockstep" in found.stdout


def test_a_file_that_is_not_mutated_is_refused() -> None:
    """If this fails, a slip of the pen is a run of nothing, which is green."""
    found = mutation("sim/compare.py")
    assert (found.returncode, found.stdout) == (2, "")
    assert "sim/compare.py is not mutated" in found.stderr
