"""Pinned examples: the project's tests that need no fixture, as plain functions.

Run by pytest they would take longer than all other oracles together. Property tests are left out:
they would have to search, where these know.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from draftproof.fuzz.mutation.planting import OutOfBoundsError


class PinnedError(Exception):
    """A pinned example does not hold; its name is the text."""


def check(
    folders: Sequence[str],
    left_out: Container[str] = (),
    about: str = "",
    begins: Callable[[], object] = lambda: None,
) -> int:
    """Run all of them; returns how many. Raises PinnedError for the first that fails.

    left_out: names of files; about: files with this in their names come first; begins: called
    before each.
    """
    count = 0
    paths = [path for folder in folders for path in sorted(Path(folder).glob("test_*.py"))]
    paths.sort(key=lambda path: about not in path.name)
    for path in [path for path in paths if path.name not in left_out]:
        for name, example in _examples(path):
            begins()
            try:
                example()
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # what pytest raises is no Exception
                if _out_of_bounds(error):
                    continue
                raise PinnedError(f"{path}::{name}") from error
            count += 1
    return count


def _out_of_bounds(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OutOfBoundsError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _examples(path: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every test of a file with every set of its arguments."""
    try:
        module = _import(path)
    except BaseException as error:
        if _out_of_bounds(error):
            return
        raise PinnedError(f"{path}: importing it raised {type(error).__name__}") from error
    marks = getattr(module, "pytestmark", [])
    for name, test in list(vars(module).items()):
        if name.startswith("test_") and callable(test) and not hasattr(test, "hypothesis"):
            wanted = set(signature(test).parameters)
            own = [
                *getattr(test, "pytestmark", []),
                *(marks if isinstance(marks, list) else [marks]),
            ]
            for arguments in _arguments([mark for mark in own if mark.name == "parametrize"]):
                if set(arguments) == wanted:
                    yield name, partial(test, **arguments)


def _arguments(marks: list[Any]) -> Iterator[dict[str, Any]]:
    """What `pytest.mark.parametrize` asks for."""
    axes = []
    for mark in marks:
        names, values = mark.args[:2]
        names = [one.strip() for one in names.split(",")] if isinstance(names, str) else names
        rows = [getattr(value, "values", value) if _is_param(value) else value for value in values]
        single = len(names) == 1
        axes.append(
            [
                dict(zip(names, row if not single or _is_param(value) else [row], strict=True))
                for row, value in zip(rows, values, strict=True)
            ]
        )
    for combination in itertools.product(*axes):
        yield {name: value for part in combination for name, value in part.items()}


def _is_param(value: object) -> bool:
    return type(value).__name__ == "ParameterSet"


def _import(path: Path) -> Any:
    """As pytest does: by its name, from its own folder, unless that is a package."""
    package = (path.parent / "__init__.py").exists()
    for folder in (path.parent, path.parent.parent):
        if str(folder.resolve()) not in sys.path:
            sys.path.insert(0, str(folder.resolve()))
    return importlib.import_module(f"{path.parent.name}.{path.stem}" if package else path.stem)
