"""The list of known survivors: what it must look like, and when a run fails by it."""

import json
from pathlib import Path

import pytest

from draftproof.fuzz.mutation.children import Verdict
from draftproof.fuzz.mutation.report import below, markdown, record
from draftproof.fuzz.mutation.survivors import mistakes, read
from draftproof.sim.errors import FileError

DOCS = Path(__file__).parents[2] / "docs"
KILLED, SURVIVED = Verdict("killed", "journal", 3), Verdict("survived")
A, B = "sim/a.py::f::constant::1 -> 2", "sim/a.py::f::boolean::a | b and c -> a | b or c"


def written(folder: Path, text: str) -> Path:
    path = folder / "list.txt"
    path.write_text(text, "utf-8")
    return path


def test_a_list_is_read(tmp_path: Path) -> None:
    """If this fails, a name with a bar in it is cut in two."""
    path = written(tmp_path, f"# why\n\n{A} | no matter\n{B} | none either\n")
    assert read(path) == {A: "no matter", B: "none either"}


@pytest.mark.parametrize("text", [f"{A}\n", f"{A} | \n", f"{A} | x\n{A} | y\n"])
def test_a_line_without_a_reason_is_an_error(text: str, tmp_path: Path) -> None:
    """If this fails, survivors can be waved through."""
    with pytest.raises(FileError, match=r"list\.txt:\d"):
        read(written(tmp_path, text))


def test_a_run_is_good_if_the_list_is_right() -> None:
    """If this fails, no run is ever good."""
    assert not mistakes({B: "x"}, {A: KILLED, B: SURVIVED}, [A, B])
    assert not mistakes({B: "x"}, {A: KILLED}, [A, B])  # not in the sample
    assert not mistakes({"gpu/b.py::f": "x"}, {A: KILLED}, [A])  # another file was asked for


def test_a_run_fails_for_each_mistake_of_the_list() -> None:
    """If this fails, survivors are silent, or reasons stay that are wrong."""
    assert mistakes({}, {A: SURVIVED}, [A]) == [f"survived, and is not listed: {A}"]
    assert mistakes({A: "x"}, {A: KILLED}, [A]) == [f"listed, but killed by journal: {A}"]
    assert mistakes({B: "x"}, {A: KILLED}, [A]) == [f"listed, but there is no such mutant: {B}"]


def test_only_what_is_equivalent_does_not_count() -> None:
    """If this fails, the score can be talked up."""
    verdicts = {**{f"sim/a.py::{i}": KILLED for i in range(9)}, A: SURVIVED}
    table = record(verdicts, {A: "makes no difference"})
    assert (table["sums"]["engine"]["equivalent"], below(table)) == (1, [])
    table = record(verdicts, {A: "not seen: nobody looks"})
    assert (table["sums"]["engine"]["survived"], len(below(table))) == (1, 1)


def test_the_page_is_the_table_and_the_list() -> None:
    """If this fails, docs/mutation.md was edited by hand, or does not go with the list."""
    table = json.loads((DOCS / "mutation.json").read_text())
    page = (DOCS / "mutation.md").read_text()
    assert page == markdown(table, "python -m draftproof.fuzz.mutation")
    survived = {n: m.get("listed") for n, m in table["mutants"].items() if m["fate"] == "survived"}
    assert survived == read()
    assert below(table) == []
