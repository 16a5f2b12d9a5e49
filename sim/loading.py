"""Implementations by name: `module:factory` or `path.py:factory`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from draftproof.reference.vocabulary import Collaborators, Config, ConfigError, Worker
from draftproof.sim.errors import ImplementationError
from draftproof.sim.lockstep import MakeWorker


def load(name: str, device: str = "cpu", options: Mapping[str, str] | None = None) -> MakeWorker:
    """A function that makes workers of the named implementation.

    Raises ImplementationError (exit code 4) if there is none, and later if its factory raises;
    a ConfigError of the factory passes: it refuses this configuration.
    """
    factory = find(name)

    def make(config: Config, collaborators: Collaborators) -> Worker:
        try:
            worker: Worker = factory(config, device, collaborators, **(options or {}))
        except ConfigError:
            raise  # this case is not for this worker
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}"
            raise ImplementationError(
                f"implementation {name!r}: its factory raised {reason}"
            ) from error
        try:
            _check_contract(name, worker)
        except (ImplementationError, KeyboardInterrupt):
            raise
        except BaseException as error:  # a property, or the contract itself, fails
            reason = f"{type(error).__name__}: {error}"
            raise ImplementationError(
                f"implementation {name!r}: looking at its {type(worker).__name__} raised {reason}"
            ) from error
        return worker

    return make


METHODS = {
    "prepare": "prepare(batch) -> None",
    "forward": "forward(batch) -> StepResult",
    "state": "state() -> WorkerState",
}
"""What every worker has, with how it is called."""


def _check_contract(name: str, worker: object) -> None:
    """The door's methods, and the contract of the worker's own base class if that brings one:
    `conforming`, a static method that raises TypeError for a worker that breaks it."""
    if worker is None:
        raise ImplementationError(
            f"implementation {name!r}: its factory returned None: it has to return the worker"
        )
    kind = type(worker).__name__
    for method, signature in METHODS.items():
        if not callable(getattr(worker, method, None)):
            raise ImplementationError(
                f"implementation {name!r}: {kind} has no method {method}(): "
                f"implement {kind}.{signature}"
            )
    contract = getattr(worker, "conforming", None)
    if callable(contract):
        try:
            contract(worker)
        except TypeError as error:
            raise ImplementationError(f"implementation {name!r}: {error}") from error


def find(name: str) -> Callable[..., Any]:
    """The factory of that name, whatever it makes. Raises ImplementationError if there is none."""
    module_name, colon, factory_name = name.rpartition(":")
    if not colon or not module_name or not factory_name:
        raise ImplementationError(
            f"implementation {name!r}: write it as module:factory or path.py:factory"
        )
    module = _import(name, module_name)
    factory: Callable[..., Any] | None = getattr(module, factory_name, None)
    if not callable(factory):
        raise ImplementationError(f"implementation {name!r}: no factory {factory_name!r} in it")
    return factory


def _import(name: str, module_name: str) -> ModuleType:
    try:
        if module_name.endswith(".py"):
            return _import_file(Path(module_name))
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        own = error.name is None or f"{module_name}.".startswith(f"{error.name}.")
        hint = "check the name" if own else "install it"
        raise ImplementationError(f"implementation {name!r}: {error}; {hint}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        reason = f"{type(error).__name__}: {error}"
        raise ImplementationError(
            f"implementation {name!r}: importing it raised {reason}"
        ) from error


def _import_file(path: Path) -> ModuleType:
    """A module from a file; files beside it can be imported by it, as in a script."""
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    sys.path.insert(0, str(path.resolve().parent))
    name = f"draftproof_implementation_{path.stem}"  # cannot shadow a module of that name
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
