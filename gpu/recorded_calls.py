"""The stand-in for a CUDA graph on a CPU: recorded calls over the same memory.

Recording executes nothing, as capture does not: results get memory of their own, filled with
poison, and only their layout is worked out. A replay makes exactly the recorded calls, with the
very tensors and numbers they were recorded with. So what Python did in between (a number read, a
branch taken, a tensor made from a list) is frozen, as it would be in a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from draftproof.gpu.capture_safety import EveryOperation, launches_by, problem, reads_told

NO_WORK = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
"""Operations that give memory and leave in it what was there."""


class CaptureError(RuntimeError):
    """Something was recorded that a CUDA graph could not hold."""


class RecordedCalls:
    """What `torch.cuda.CUDAGraph` is on a GPU; made by recording a path, `result` is its result."""

    def __init__(self, path: Callable[[], Any]) -> None:
        self._calls: list[Callable[[], None]] = []
        with _Recorder(self._calls), reads_told(_refuse), launches_by(self._launch):
            self.result = path()

    def replay(self) -> None:
        """Do the recorded work with what its memory holds now."""
        for call in self._calls:
            call()

    def _launch(
        self,
        kernel: Any,
        grid: tuple[int, ...],
        arguments: tuple[Any, ...],
        warps: int,
        constants: dict[str, Any],
    ) -> None:
        self._calls.append(lambda: kernel[grid](*arguments, num_warps=warps, **constants))


class _Recorder(EveryOperation):
    def __init__(self, calls: list[Callable[[], None]]) -> None:
        super().__init__()
        self.calls = calls

    def operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Note it, and return memory for its result."""
        reason = problem(func, args, kwargs)
        if reason is not None:
            _refuse(func, reason)
        effect = _effect(func)
        if effect == "view":
            return func(*args, **kwargs)
        if effect == "write":
            self.calls.append(_Write(func, args, kwargs))
            return _written(func, args, kwargs)
        results = _unwritten(func, args, kwargs)
        if func.overloadpacket.__name__ not in NO_WORK:
            self.calls.append(_Compute(func, args, kwargs, results))
        return results


@dataclass(frozen=True, slots=True)
class _Write:
    """An operation that writes into its arguments."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self) -> None:
        self.func(*self.args, **self.kwargs)


@dataclass(frozen=True, slots=True)
class _Compute:
    """An operation whose result, one tensor or several, goes to memory set aside for it."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: Any

    def __call__(self) -> None:
        fresh = self.func(*self.args, **self.kwargs)
        if isinstance(fresh, Tensor):
            self.results.copy_(fresh)
        else:
            for result, value in zip(self.results, fresh, strict=True):
                result.copy_(value)


def _refuse(operation: Any, reason: str) -> NoReturn:
    raise CaptureError(f"a CUDA graph cannot hold {operation}: it {reason}")


def _effect(func: Any) -> str:
    """What an operation does to memory: "write", "view", or "compute"."""
    aliases = [value.alias_info for value in func._schema.returns if value.alias_info is not None]
    if func._schema.is_mutable:
        return "write"
    return "view" if aliases else "compute"


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an operation that writes returns: the arguments that it writes into."""
    given = dict(zip((a.name for a in func._schema.arguments), args, strict=False)) | kwargs
    into = [
        given[argument.name]
        for argument in func._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    count = len(func._schema.returns)
    if count not in (0, len(into)):
        raise CaptureError(f"the stand-in for a CUDA graph does not know {func}")
    return None if count == 0 else into[0] if count == 1 else tuple(into)


def _unwritten(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Memory for the results of an operation, full of poison.

    Their layout is that of the same operation on zeros: zero is an index of anything. Torch's own
    meta tensors would tell it without work, but they import its whole compiler, and Triton.
    """

    zeros = [_zeros(value) for value in args], {name: _zeros(v) for name, v in kwargs.items()}
    results = func(*zeros[0], **zeros[1])
    if isinstance(results, Tensor):
        return _poisoned(results)
    if isinstance(results, list | tuple) and all(isinstance(x, Tensor) for x in results):
        return type(results)(map(_poisoned, results))
    raise CaptureError(f"the stand-in for a CUDA graph does not know {func}")


def _zeros(value: Any) -> Any:
    """An argument whose tensors have the same layout, and hold zeros."""
    if isinstance(value, Tensor):
        return _filled(value, 0)
    return list(map(_zeros, value)) if isinstance(value, list | tuple) else value


def _poisoned(tensor: Tensor) -> Tensor:
    if tensor.dtype.is_floating_point:
        return _filled(tensor, float("nan"))
    return _filled(tensor, True if tensor.dtype == torch.bool else torch.iinfo(tensor.dtype).max)


def _filled(tensor: Tensor, value: float) -> Tensor:
    """A new tensor of the same layout, full of one value."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).fill_(value)
