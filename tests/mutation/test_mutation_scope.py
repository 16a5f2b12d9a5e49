"""What is mutated, and that what is not has a reason that holds."""

import ast
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from draftproof.fuzz.mutation.mutants import mutants
from draftproof.fuzz.mutation.report import markdown, record
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
        if (side.folder / name).is_dir():
            continue
        tree = ast.parse((side.folder / name).read_text("utf-8"))
        defined = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        assert not function or set(function.split(".")) <= defined, place


def kept_back(side: Side) -> list[str]:
    """Files and folders of code that are neither mutated nor left out with a reason."""
    code = [path for path in side.folder.iterdir() if path.suffix == ".py"]
    code += [path.parent for path in side.folder.glob("*/*.py")]
    mutated = side.files()
    return sorted({path.name for path in code if path not in mutated} - set(side.left_out))


@pytest.mark.parametrize("side", SIDES, ids=lambda side: side.name)
def test_whatever_is_not_mutated_has_a_reason(side: Side) -> None:
    """If this fails, code escapes mutation and the page does not say so."""
    assert kept_back(side) == [] or (side.only is not None and side.rest)
    assert all(why for _, why in side.excluded())


def test_a_folder_without_a_reason_is_told() -> None:
    """If this fails, the test above cannot fail."""
    reasons = {place: why for place, why in SIDES[0].left_out.items() if place != "kernels"}
    assert kept_back(replace(SIDES[0], left_out=reasons)) == ["kernels"]


def test_the_page_says_what_is_left_out() -> None:
    """If this fails, the scores of the page seem to be about code that was never mutated."""
    told = markdown(record({}, {}), "nothing").partition("## Left out\n\n")[2].splitlines()
    for folder in ("gpu/defects", "gpu/draft_model", "gpu/kernels", "reference/numeric"):
        (line,) = [line for line in told if line.startswith(f"* `{folder}`: ")]
        assert "(tests/" in line
    assert any(line.startswith("* the rest of `sim`: ") for line in told)
    assert any(line.startswith("* `gpu/static.py::_Area.wait`: ") for line in told)


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
