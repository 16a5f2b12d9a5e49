"""The house keeps its shape: who may import whom, how long things are, what no file contains.

Each check is a function that lists violations below a root, so that every test of the house comes
with a test that plants a violation and sees it found.
"""

import ast
import io
import os
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command import clean

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("reference", "gpu", "sim", "properties", "fuzz")

# What each folder may import of ours, itself apart: the table of the design.
MAY_IMPORT = {
    "reference": (),
    "gpu": ("draftproof.reference.vocabulary",),
    "sim": ("draftproof.reference",),
    "properties": ("draftproof.sim", "draftproof.reference.vocabulary"),
    "fuzz": ("draftproof.reference", "draftproof.sim", "draftproof.properties"),
    "tests": ("draftproof",),
}

# Hosts of package registries, in parts so that this file does not contain them either.
REGISTRIES = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("deb", "debian", "org"),
        ("download", "pytorch", "org"),
    )
)

MAX_FILE_LINES = 350
MAX_FUNCTION_LINES = 60


# ---- the checks ----------------------------------------------------------------------------------


def python_files(root: Path, folder: str) -> list[Path]:
    return sorted((root / folder).rglob("*.py"))


def imported_names(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Each imported thing with its line, as an absolute dotted name (`from a import b` is a.b)."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, name.name) for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
                base = ".".join([*above, *([module] if module else [])])
                yield from ((node.lineno, f"{base}.{name.name}") for name in names)
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name


def complaint(folder: str, name: str) -> str | None:
    """What is wrong with importing `name` in `folder`, or None."""
    top = name.partition(".")[0]
    if top in FOLDERS:
        return f"imports {name}: say draftproof.{name}"
    if top == "draftproof":
        allowed = (*MAY_IMPORT[folder], f"draftproof.{folder}")
        if not any(name == part or name.startswith(part + ".") for part in allowed):
            return f"imports {name}, which {folder}/ may not"
    elif folder == "reference" and top not in sys.stdlib_module_names:
        return f"imports {name}: reference/ uses only the standard library"
    return None


def import_violations(root: Path) -> list[str]:
    found = []
    for folder in MAY_IMPORT:
        for file in python_files(root, folder):
            where = file.relative_to(root)
            package = ".".join(["draftproof", *where.parent.parts])
            for line, name in imported_names(ast.parse(file.read_text("utf-8")), package):
                if problem := complaint(folder, name):
                    found.append(f"{where}:{line} {problem}")
    return found


def length_violations(root: Path) -> list[str]:
    found = []
    for file in (file for folder in MAY_IMPORT for file in python_files(root, folder)):
        where, text = file.relative_to(root), file.read_text("utf-8")
        if (lines := len(text.splitlines())) > MAX_FILE_LINES:
            found.append(f"{where} has {lines} lines, more than {MAX_FILE_LINES}")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    found.append(
                        f"{where}:{node.lineno} {node.name} has {length} lines, "
                        f"more than {MAX_FUNCTION_LINES}"
                    )
    return found


EXCUSE = re.compile(
    r"(type:\s*ignore|(ruff:\s*|flake8:\s*)?noqa)(\[[^\]]*\]|:\s*[A-Z]+\d+[A-Z\d, ]*)?"
)


def excuse_violations(root: Path) -> list[str]:
    """Comments that silence a checker and do not say why in the same comment."""
    found = []
    for file in (file for folder in MAY_IMPORT for file in python_files(root, folder)):
        for token in tokenize.generate_tokens(io.StringIO(file.read_text("utf-8")).readline):
            if token.type != tokenize.COMMENT or not re.search(
                r"#\s*" + EXCUSE.pattern, token.string
            ):
                continue
            if len(EXCUSE.sub("", token.string).strip("# \t:-")) < 8:
                found.append(f"{file.relative_to(root)}:{token.start[0]} {token.string}: say why")
    return found


def text_files(root: Path) -> Iterator[Path]:
    """Every file of the project, whether or not git is there; what is generated is left out."""
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [
            name
            for name in subfolders
            if name not in {"build", "dist", "traces", "shared", "__pycache__"}
            and not name.endswith(".egg-info")
            and (not name.startswith(".") or name == ".ci")
        ]
        yield from (Path(folder) / name for name in names)


def registry_violations(root: Path) -> list[str]:
    return [
        f"{file.relative_to(root)} names the registry host {host}"
        for file in text_files(root)
        for host in REGISTRIES
        if host in file.read_text("utf-8", errors="ignore")
    ]


def map_violations(root: Path) -> list[str]:
    """What the docstring of a folder names that is not there."""
    return [
        f"{file.relative_to(root)} names {name}"
        for folder in MAY_IMPORT
        for file in sorted((root / folder).rglob("__init__.py"))
        for name in re.findall(r"\b[\w/]+(?:\.py\b|/)", file.read_text("utf-8"))
        if not (file.parent / name).exists() and not (root / name).exists()
    ]


# ---- the house keeps them ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "violations",
    [import_violations, length_violations, excuse_violations, registry_violations, map_violations],
)
def test_the_house_is_in_order(violations: Callable[[Path], list[str]]) -> None:
    """If this fails, the listed places break a rule of the house: the message names each."""
    assert violations(ROOT) == []


def plant(root: Path, where: str, text: str) -> None:
    file = root / where
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")


@pytest.mark.parametrize(
    ("where", "text", "expected"),
    [
        ("gpu/a.py", "import draftproof.sim.engine", "imports draftproof.sim.engine, which gpu/"),
        ("gpu/a.py", "from draftproof.reference import model", "draftproof.reference.model, which"),
        ("gpu/a.py", "from draftproof.reference import *", "imports draftproof.reference.*, which"),
        ("gpu/b/a.py", "from ...sim import engine", "imports draftproof.sim.engine, which gpu/"),
        ("gpu/a.py", "from .. import fuzz", "imports draftproof.fuzz, which gpu/"),
        (
            "reference/a.py",
            "def f():\n    from draftproof import sim",
            "a.py:2 imports draftproof.",
        ),
        ("reference/a.py", "import numpy as np", "only the standard library"),
        ("sim/a.py", "import draftproof.properties.claims", "which sim/ may not"),
        ("properties/a.py", "from draftproof.reference.model import step", "which properties/"),
        ("properties/a.py", "import draftproof.fuzz.cli", "which properties/ may not"),
        ("fuzz/a.py", "import draftproof.gpu", "which fuzz/ may not"),
        ("fuzz/a.py", "importlib.import_module('draftproof.gpu.worker')", "which fuzz/ may not"),
        ("fuzz/a.py", "import draftproof", "imports draftproof, which fuzz/ may not"),
        ("sim/a.py", "from sim.engine import Engine", "say draftproof.sim.engine.Engine"),
        ("tests/test_a.py", "import gpu", "say draftproof.gpu"),
    ],
)
def test_a_planted_import_is_found(tmp_path: Path, where: str, text: str, expected: str) -> None:
    """If this fails, the test of the import chain would be green whatever anybody imports."""
    plant(tmp_path, where, text)
    (violation,) = import_violations(tmp_path)
    assert violation.startswith(where)
    assert expected in violation


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("gpu/a.py", "from draftproof.reference.vocabulary import Batch\nimport torch"),
        ("gpu/a.py", "from draftproof.reference import vocabulary"),
        ("gpu/defects/a.py", "from draftproof.gpu.worker import Worker"),
        ("sim/a.py", "import draftproof.reference.model as model\nfrom . import engine"),
        ("properties/a.py", "from draftproof.sim import journal"),
        (
            "fuzz/a.py",
            "import draftproof.properties\nimport rich\nIMPL = 'draftproof.gpu.worker:m'",
        ),
        ("tests/test_a.py", "import draftproof.gpu"),
    ],
)
def test_an_allowed_import_is_not_found(tmp_path: Path, where: str, text: str) -> None:
    """If this fails, the test of the import chain forbids what the design allows."""
    plant(tmp_path, where, text)
    assert import_violations(tmp_path) == []


def test_long_files_and_functions_are_found(tmp_path: Path) -> None:
    """If this fails, files and functions may grow without anybody noticing."""
    plant(tmp_path, "sim/a.py", "def f():\n" + "    g()\n" * MAX_FUNCTION_LINES)
    plant(tmp_path, "sim/b.py", "g()\n" * (MAX_FILE_LINES + 1))
    plant(tmp_path, "sim/c.py", "g()\n" * MAX_FILE_LINES)
    plant(tmp_path, "tests/d/test_a.py", "g()\n" * (MAX_FILE_LINES + 1))
    assert length_violations(tmp_path) == [
        "sim/a.py:1 f has 61 lines, more than 60",
        "sim/b.py has 351 lines, more than 350",
        "tests/d/test_a.py has 351 lines, more than 350",
    ]


def test_an_excuse_without_a_reason_is_found(tmp_path: Path) -> None:
    """If this fails, a checker can be silenced without saying why."""
    mark = "# " + "type: ignore"
    quiet = "# " + "noqa"
    lines = [
        f"a = 1  {mark}",
        f"a = 1  {mark}[attr-defined]",
        f"a = 1  {quiet}: BLE001",
        f"a = 1  {mark}[attr-defined]  {quiet}: B001, E501",
        f"a = 1  {mark}[attr-defined]  # torch leaves this untyped",
        f"a = 1  {quiet}: BLE001 - whatever the worker raises is its verdict",
        f"a = '{quiet}: BLE001'",
    ]
    plant(tmp_path, "sim/a.py", "\n".join(lines))
    assert [line.split()[0] for line in excuse_violations(tmp_path)] == [
        f"sim/a.py:{n}" for n in (1, 2, 3, 4)
    ]


def test_a_registry_host_is_found(tmp_path: Path) -> None:
    """If this fails, a file may tie the project to one registry's address."""
    plant(tmp_path, ".ci/run", "pip install -i https://" + REGISTRIES[0] + "/simple torch")
    plant(tmp_path, "traces/old.json", REGISTRIES[0])
    assert registry_violations(tmp_path) == [f".ci/run names the registry host {REGISTRIES[0]}"]


def test_a_map_of_what_is_gone_is_found(tmp_path: Path) -> None:
    """If this fails, a newcomer is sent to files that were moved long ago."""
    plant(tmp_path, "sim/__init__.py", '"""Read b.py, then c/, then docs."""')
    assert map_violations(tmp_path) == [f"sim/__init__.py names {n}" for n in ("b.py", "c/")]


# ---- how it installs -----------------------------------------------------------------------------


def run_outside(tmp_path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """This Python in a folder outside the repository, without a path to it in the environment."""
    return subprocess.run(
        [sys.executable, *args],
        cwd=tmp_path,
        env=clean(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", FOLDERS)
def test_only_the_namespace_is_installed(tmp_path: Path, name: str) -> None:
    """If this fails, installing draftproof puts a package called `sim` or `gpu` beside others'."""
    generic = run_outside(tmp_path, "-c", f"import {name}")
    assert generic.returncode == 1
    assert f"No module named '{name}'" in generic.stderr
    ours = run_outside(tmp_path, "-c", f"import draftproof.{name}")
    assert (ours.returncode, ours.stderr) == (0, "")


def test_help_starts_without_the_heavy_libraries(tmp_path: Path) -> None:
    """If this fails, every command pays seconds for libraries that it may not need."""
    call = (
        "import sys\n"
        "from importlib.metadata import entry_points\n"
        "(script,) = entry_points(group='console_scripts', name='draftproof')\n"
        "sys.argv = ['draftproof', '--help']\n"
        "sys.exit(script.load()())\n"
    )
    done = run_outside(tmp_path, "-X", "importtime", "-c", call)
    timings = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    trouble = [line for line in done.stderr.splitlines() if line not in timings]
    assert (done.returncode, trouble) == (0, [])
    assert "check" in done.stdout
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in timings}
    assert "draftproof" in loaded
    assert loaded.isdisjoint({"torch", "hypothesis", "rich"})


def test_every_folder_of_code_is_packaged_and_typed() -> None:
    """If this fails, a folder is missing from a wheel or invisible to type checkers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    folders = {
        str(file.parent.relative_to(ROOT)) for top in FOLDERS for file in python_files(ROOT, top)
    }
    assert set(project["package-dir"].values()) == folders
    assert set(project["packages"]) == set(project["package-dir"])
    for name, folder in project["package-dir"].items():
        assert name == "draftproof." + folder.replace("/", ".")
        assert (ROOT / folder / "py.typed").exists(), folder
        assert (ROOT / ".typing" / "draftproof" / folder).samefile(ROOT / folder), folder


def test_the_budgets_of_ci_stay_under_forty_minutes() -> None:
    """If this fails, a change may wait longer for its verdict than the project promised."""
    budgets = re.findall(r"^phase \w+ (\d+) ", (ROOT / ".ci" / "run").read_text("utf-8"), re.M)
    assert len(budgets) == 8
    assert sum(map(int, budgets)) < 40 * 60
