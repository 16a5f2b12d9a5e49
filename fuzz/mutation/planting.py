"""Import the project anew with one change in it. For a process of its own: nothing is put back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

PROJECT = "draftproof"


class OutOfBoundsError(ImportError):
    """Somebody wants to import what must not judge this mutant."""


def module_name(path: Path) -> str:
    """Of a file of the project: sim/engine.py is draftproof.sim.engine."""
    return ".".join((PROJECT, *path.with_suffix("").parts))


def plant(
    module: str, code: CodeType | None, renewed: Sequence[str], forbidden: Sequence[str]
) -> None:
    """From now on `module` is imported with this code; None: as it is.

    renewed: packages that are forgotten, to be imported anew by whoever needs them; forbidden:
    packages that cannot be imported any more.
    """
    for name in list(sys.modules):
        if name != __name__ and _within(name, (*renewed, *forbidden)):
            del sys.modules[name]
    sys.meta_path.insert(0, _Planted(module, code, forbidden))


def _within(name: str, packages: Sequence[str]) -> bool:
    return any(f"{name}.".startswith(f"{package}.") for package in packages)


class _Planted(MetaPathFinder, Loader):
    def __init__(self, module: str, code: CodeType | None, forbidden: Sequence[str]) -> None:
        self._module, self._code, self._forbidden = module, code, forbidden

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if _within(fullname, self._forbidden):
            raise OutOfBoundsError(f"{fullname} must not judge this", name=fullname)
        if fullname != self._module or self._code is None:
            return None
        return ModuleSpec(fullname, self, origin=self._code.co_filename)

    def exec_module(self, module: ModuleType) -> None:
        assert self._code is not None
        module.__file__ = self._code.co_filename
        exec(self._code, module.__dict__)  # noqa: S102 - that is what a loader does
