"""Pinned examples: tests as plain functions, with every set of their arguments."""

import sys
from pathlib import Path

import pytest

from draftproof.fuzz.mutation.pinned import PinnedError, check

SOURCE = """
import pytest
from hypothesis import given, strategies as st

def test_plain(): pass

@pytest.mark.parametrize("a", [1, 2])
@pytest.mark.parametrize(("b", "c"), [(3, 4), pytest.param(5, 6, id="x")])
def test_arguments(a, b, c): assert {"a": a, "b": b, "c": c} in ALLOWED

ALLOWED = [{"a": a, "b": b, "c": b + 1} for a in (1, 2) for b in (3, 5)]

@pytest.mark.parametrize("one", ["x", pytest.param("y")])
def test_one(one): assert one in ("x", "y")

def test_fixture(tmp_path): raise AssertionError("needs pytest")

@given(st.integers())
def test_property(x): raise AssertionError("searches")

def helper(): raise AssertionError("is no test")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "test_of_pinned", raising=False)
    return tmp_path


def run(folder: Path, source: str) -> int:
    (folder / "test_of_pinned.py").write_text(source, "utf-8")
    return check([str(folder)])


def test_every_example_runs_once_and_nothing_else(folder: Path) -> None:
    """If this fails, examples are silently left out, or a search is taken for an example."""
    assert run(folder, SOURCE) == 7


@pytest.mark.parametrize(
    "defect",
    ["def test_plain(): assert False", "def test_plain(): pytest.fail('x')", "raise KeyError"],
)
def test_an_example_that_does_not_hold_is_told(defect: str, folder: Path) -> None:
    """If this fails, no mutant dies by an example."""
    with pytest.raises(PinnedError, match=r"test_of_pinned\.py"):
        run(folder, SOURCE.replace("def test_plain(): pass", defect))


def test_wrong_arguments_are_told(folder: Path) -> None:
    """If this fails, only the first set of arguments counts."""
    with pytest.raises(PinnedError, match="test_arguments"):
        run(folder, SOURCE.replace("pytest.param(5, 6", "pytest.param(5, 7"))


def test_files_can_be_left_out(folder: Path) -> None:
    """If this fails, tests that cannot see a mutant cost as much as those that can."""
    (folder / "test_of_pinned.py").write_text("raise KeyError", "utf-8")
    assert check([str(folder)], ["test_of_pinned.py"]) == 0
