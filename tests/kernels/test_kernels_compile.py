"""Kernels compile for compute capability 9.0 on a machine without a GPU, and none spills.

Compiling cannot share a process with interpreting, so another one does it.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import triton

from draftproof.gpu import kernels
from draftproof.gpu.kernels import compile as compiling

FOLDER = Path(kernels.__file__).parent
TABLE = Path(__file__).resolve().parents[2] / "docs" / "kernels.md"
MODULE = "draftproof.gpu.kernels.compile"

Python = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Python:
    """Runs Python where Triton compiles, into a cache of its own."""
    cache = tmp_path_factory.mktemp("triton")
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    env["TRITON_CACHE_DIR"] = str(cache)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="module")
def rows(python: Python) -> list[dict[str, Any]]:
    """What the command says about every kernel."""
    done = python("-m", MODULE, "--json")
    assert done.stderr == ""
    assert done.returncode == 0
    return [json.loads(line) for line in done.stdout.splitlines()]


def written_kernels() -> set[str]:
    """The functions of the package that are launched."""
    return {
        node.name
        for file in FOLDER.glob("*.py")
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.endswith("_kernel")
    }


def test_every_kernel_is_compiled_for_both_blocks(rows: list[dict[str, Any]]) -> None:
    """If this fails, a kernel was written that may not compile at the published sizes."""
    for block in (5, 7):
        assert {row["kernel"] for row in rows if row["block"] == block} == written_kernels()


def test_no_kernel_spills(rows: list[dict[str, Any]]) -> None:
    """If this fails, a kernel keeps registers in memory: give it smaller tiles or more warps."""
    assert {row["case"]: row["spills"] for row in rows if row["spills"]} == {}
    assert all(0 < row["registers"] <= 255 for row in rows)
    assert all(row["shared"] <= 232_448 for row in rows)


def test_the_table_is_what_the_command_prints(rows: list[dict[str, Any]]) -> None:
    """If this fails, run the command above the table in docs/kernels.md again."""
    facts = [compiling.Compiled(**row) for row in rows]
    _, shown, _ = TABLE.read_text("utf-8").split(compiling.MARK)
    shown = shown.strip()
    if shown.startswith(f"Triton {triton.__version__},"):
        assert shown == compiling.table(facts)
    else:  # another compiler: other registers, the same kernels
        columns = [line.split("|")[1:3] for line in shown.splitlines()]
        printed = [line.split("|")[1:3] for line in compiling.table(facts).splitlines()]
        assert [c for c in columns if c] == [c for c in printed if c]


def test_a_spill_is_found(python: Python) -> None:
    """If this fails, the test above would not see one."""
    code = (
        "from draftproof.gpu.kernels import compile as c, published as p\n"
        "every, plain = p.cases, c._compile\n"
        "p.cases = lambda block: [x for x in every(block) if x.name == 'Markov chain, 64 rows']\n"
        "c._compile = lambda kernel, given, warps, sizes: plain(kernel, given, 2, sizes)\n"
        "print(max(row.spills for row in c.compiled(5)))\n"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
