"""A process for each mutant: whatever it does, there is a verdict, and nothing is left of it."""

import ast
import sys
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import cast

import pytest

from draftproof.fuzz.mutation import children
from draftproof.fuzz.mutation.children import Task, Verdict, judged
from draftproof.fuzz.mutation.mutants import Mutant
from draftproof.fuzz.mutation.scope import MODEL

ROOT = Path(__file__).resolve().parents[2]
LENGTHS = ROOT / "reference" / "lengths.py"


@dataclass
class Replaced:
    """In place of a mutant of `reference/lengths.py`: any source."""

    source: str
    path: Path = Path("reference/lengths.py")

    def code(self) -> CodeType:
        return compile(self.source, str(self.path), "exec", dont_inherit=True)


def verdicts(monkeypatch: pytest.MonkeyPatch, *sources: str) -> list[Verdict]:
    monkeypatch.chdir(ROOT)
    tasks = [Task(cast("Mutant", Replaced(s)), MODEL, ("recordings",), {}) for s in sources]
    return judged(tasks, 2)


def test_an_endless_loop_is_timed_out_and_hurts_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a run with one endless mutant is endless, or says that it was killed."""
    monkeypatch.setattr(children, "CASE_SECONDS", 2)
    source = LENGTHS.read_text("utf-8")
    found = verdicts(monkeypatch, "while True:\n    pass\n", source, "import time\ntime.sleep(0)\n")
    assert [verdict.fate for verdict in found] == ["timed out", "survived", "stillborn"]


def test_a_sleeper_is_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a mutant that waits for ever without working stops the run."""
    monkeypatch.setattr(children, "WALL_SECONDS", 1)
    assert verdicts(monkeypatch, "import time\ntime.sleep(600)\n")[0].fate == "timed out"


def test_a_mutant_that_cannot_be_imported_is_stillborn(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the score counts what no oracle had to see."""
    (verdict,) = verdicts(monkeypatch, "1 / 0\n")
    assert (verdict.fate, verdict.oracle) == ("stillborn", None)


def test_a_mutant_that_takes_its_process_down_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, it ends the run, or counts as a time-out."""
    (verdict,) = verdicts(monkeypatch, "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    assert (verdict.fate, verdict.oracle) == ("killed", "process")


def test_a_change_is_seen_through_every_import_and_only_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If this fails, a mutant is judged where others hold on to what was imported before."""
    before, modules = LENGTHS.read_bytes(), dict(sys.modules)
    tree = ast.parse((ROOT / "reference" / "acceptance.py").read_text("utf-8"))
    stricter = ast.unparse(tree).replace(
        "def strict(", "def strict(drafts, target):\n    return target[:1]\n\ndef lenient("
    )
    wrong = Replaced(stricter, Path("reference/acceptance.py"))
    monkeypatch.chdir(ROOT)
    (verdict,) = judged([Task(cast("Mutant", wrong), MODEL, ("recordings",), {})], 1)
    assert (verdict.fate, verdict.oracle) == ("killed", "recordings")
    assert verdict.steps > 0
    assert LENGTHS.read_bytes() == before
    assert sys.modules == modules


def test_the_worker_cannot_judge_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the oracle's strength is measured by what it is there to judge."""
    (verdict,) = verdicts(monkeypatch, "import draftproof.gpu.worker\n")
    assert (verdict.fate, verdict.told[:19]) == ("stillborn", "OutOfBoundsError: d")
