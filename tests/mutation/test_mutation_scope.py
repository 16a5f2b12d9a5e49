"""What is mutated, and that what is not has a reason that holds."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from draftproof.fuzz.mutation.mutants import mutants
from draftproof.fuzz.mutation.scope import SIDES, Side

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("side", SIDES, ids=lambda side: side.name)
def test_every_mutant_is_a_different_program(side: Side) -> None:
    """If this fails, mutants are judged that change nothing, or have no code at all."""
    names: set[str] = set()
    for path in side.files():
        original = compile(path.read_text("utf-8"), str(path), "exec", dont_inherit=True)
        for mutant in mutants(path):
            assert mutant.name not in names
            names.add(mutant.name)
            assert mutant.code() != original, mutant.name
    assert len(names) > 100


@pytest.mark.parametrize("side", SIDES, ids=lambda side: side.name)
def test_every_place_that_is_left_out_is_there(side: Side) -> None:
    """If this fails, a reason has outlived its function, or hides another one."""
    for place in side.left_out:
        name, _, function = place.partition("::")
        tree = ast.parse((side.folder / name).read_text("utf-8"))
        defined = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        assert not function or set(function.split(".")) <= defined, place


def test_what_is_left_out_is_not_mutated() -> None:
    """If this fails, the sums count what nothing can see."""
    side = SIDES[0]
    assert Path("gpu/measured.py") not in side.files()
    assert side.covers("gpu/scheduler.py::verify_windows::constant::a -> b")
    assert not side.covers("gpu/scheduler.py::best_budget::constant::a -> b")
    assert not side.covers("gpu/static.py::_Area.wait.inner::constant::a -> b")


@pytest.mark.timeout(600)
def test_no_step_runs_what_is_left_out_because_no_step_runs_it() -> None:
    """If this fails, state logic of the worker escapes mutation by a reason that is not true."""
    command = [sys.executable, str(Path(__file__).parent / "unreached.py")]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    found = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()
    assert all(line.split()[1] == "survived" for line in found.stdout.splitlines()), found.stdout
