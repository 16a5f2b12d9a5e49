"""Prints which files of the worker do without their functions that are not mutated."""

import ast
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import cast

from draftproof.fuzz.mutation.children import Task, judged
from draftproof.fuzz.mutation.mutants import Mutant
from draftproof.fuzz.mutation.oracles import import_libraries
from draftproof.fuzz.mutation.schedules import campaign
from draftproof.fuzz.mutation.scope import GIVEN, HOST, WORKER


@dataclass
class Without:
    """In place of a mutant: a file in which some functions only raise."""

    path: Path
    functions: set[str]

    def code(self) -> CodeType:
        tree = ast.parse(self.path.read_text("utf-8"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name in self.functions:
                node.body = [ast.fix_missing_locations(ast.parse("raise AssertionError").body[0])]
        return compile(ast.fix_missing_locations(tree), str(self.path), "exec", dont_inherit=True)


def main() -> None:
    """One line for each file: what became of it."""
    functions: dict[str, set[str]] = {}
    for place, reason in WORKER.left_out.items():
        if reason in (HOST, GIVEN):
            name, _, function = place.partition("::")
            functions.setdefault(name, set()).add(function)
    import_libraries()
    runs = campaign()
    tasks = [
        Task(cast("Mutant", Without(WORKER.folder / name, own)), WORKER, ("lockstep",), runs)
        for name, own in functions.items()
    ]
    for name, verdict in zip(functions, judged(tasks, 1), strict=True):
        print(name, verdict.fate, verdict.told)


if __name__ == "__main__":
    main()
