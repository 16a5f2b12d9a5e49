"""What a CUDA graph cannot hold, seen without a GPU.

While a graph is captured nothing executes, so whatever needs a value on the host, or a shape that
follows from values, is an error there. `CaptureWatch` runs code and collects all such operations;
the stand-in for a graph (`recorded_calls`) refuses them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType, TracebackType
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

READS = {"equal", "allclose", "is_nonzero"}
"""Operations that answer on the host and that torch has not tagged so."""

SHAPES = {"unique_dim_consecutive"}
"""Operations of data-dependent shape that torch has not tagged so."""

MASKED = {"index", "index_put", "index_put_", "_index_put_impl_"}
"""Operations whose shape depends on values if one of their indices is a mask."""

TO_HOST = {"tolist", "numpy", "__array__", "__dlpack__", "cpu", "__repr__", "__format__"}
"""Methods of a tensor that reach the host without an operation, at least on a CPU; `to` does too
if the host is called by its name, "cpu". A device object may be the device that somebody works on.
"""

FROM_HOST = ("tensor", "as_tensor", "from_numpy", "frombuffer")
"""Functions of torch that make a tensor of what the host has; not all of them show to a mode."""

COPIES = {"_to_copy", "copy_"}

LAUNCHING = "draftproof.gpu.kernels.launching"
FROZEN = "takes values from the host, which would be frozen"
READ = "reads values back to the host"
COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


class Finding(NamedTuple):
    """An operation, why a graph cannot hold it, and the line that asked for it."""

    operation: str
    reason: str
    where: str


def problem(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Why a CUDA graph cannot hold this operation, or None; func: one that is not composite."""
    name = func.overloadpacket.__name__
    if name in READS or torch.Tag.data_dependent_output in func.tags:
        return "reads a value back to the host"
    if name in MASKED:
        masks = [i for i in args[1] if i is not None and i.dtype in (torch.bool, torch.uint8)]
        return "has a data-dependent shape: it is indexed by a mask" if masks else None
    if name in SHAPES or torch.Tag.dynamic_output_shape in func.tags:
        return "has a data-dependent shape"
    if name == "lift_fresh" and args[0].dim():  # a number is an argument of a kernel
        return FROZEN
    return _crossing(args, kwargs) if name in COPIES else None


@contextmanager
def reads_told(tell: Callable[[str, str], None]) -> Iterator[None]:
    """Tell what reads values without an operation, and why no graph can hold it; it runs then."""
    save = torch.save

    def saved(*args: Any, **kwargs: Any) -> None:
        tell("save", READ)
        save(*args, **kwargs)

    with _Methods(tell), patch.object(torch, "save", saved):  # pickle saves storages by it too
        yield


@contextmanager
def launches_by(other: Callable[..., None]) -> Iterator[None]:
    """Hand every launch of a Triton kernel to something else, if there are kernels at all."""
    launching: Any = sys.modules.get(LAUNCHING)
    with ExitStack() as stack:
        if launching is not None:
            stack.enter_context(launching.launching_by(other))
        yield


class EveryOperation(TorchDispatchMode):
    """A mode that sees every operation that is not composite, one by one."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()  # type: ignore[no-untyped-call]  # torch leaves it untyped

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: else torch imports its compiler, and Triton, before the first operation."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.has_kernel_for_dispatch_key(COMPOSITE):
            with self:  # in inference mode torch shows the composite operation only
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        return self.operation(func, args, kwargs)

    def operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One operation; returns its result."""
        raise NotImplementedError


class CaptureWatch:
    """Collects what a graph could not hold among the operations of its `with` block.

    Launches of Triton kernels run unwatched: interpreted ones copy their arguments themselves.
    """

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._modes = ExitStack()
        self._launching = False

    @property
    def operations(self) -> list[str]:
        """The names of what was found, in order."""
        return [finding.operation for finding in self.findings]

    def found(self, operation: str, reason: str) -> None:
        """Note one operation, unless it belongs to a launch."""
        if not self._launching:
            self.findings.append(Finding(operation, reason, _asked_by()))

    def __enter__(self) -> CaptureWatch:
        self._modes.enter_context(_Watched(self))
        self._modes.enter_context(reads_told(self.found))
        for name in FROM_HOST:
            self._modes.enter_context(patch.object(torch, name, self._noted(name)))
        self._modes.enter_context(launches_by(self._launch))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._modes.close()

    def _noted(self, name: str) -> Callable[..., Tensor]:
        """A function of torch that is not safe, which says so and does its work."""
        function: Callable[..., Tensor] = getattr(torch, name)

        def noted(*args: Any, **kwargs: Any) -> Tensor:
            self.found(name, FROZEN)
            return function(*args, **kwargs)

        return noted

    def _launch(
        self,
        kernel: Any,
        grid: tuple[int, ...],
        arguments: tuple[Any, ...],
        warps: int,
        constants: dict[str, Any],
    ) -> None:
        self._launching = True
        try:
            kernel[grid](*arguments, num_warps=warps, **constants)
        finally:
            self._launching = False


class _Watched(EveryOperation):
    def __init__(self, watch: CaptureWatch) -> None:
        super().__init__()
        self.watch = watch

    def operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Let it run, and note what is wrong with it."""
        reason = problem(func, args, kwargs)
        if reason is not None:
            self.watch.found(func.overloadpacket.__name__, reason)
        return func(*args, **kwargs)


class _Methods(TorchFunctionMode):
    def __init__(self, tell: Callable[[str, str], None]) -> None:
        super().__init__()
        self.tell = tell

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        reads = name in TO_HOST or (name == "to" and _host_named(*args[1:2], kwargs.get("device")))
        if reads and isinstance(args[0], Tensor):
            self.tell(name, READ)
        return func(*args, **kwargs)


def _host_named(*targets: Any) -> bool:
    """Is one of them the host by its name?"""
    return any(isinstance(target, str) and target.startswith("cpu") for target in targets)


def _crossing(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """What is wrong with a copy, `_to_copy(source)` or `copy_(into, source)`, on a GPU.

    Nothing is if it comes from page-locked memory and nobody waits for it: each replay takes what
    is there by then.
    """
    into = kwargs.get("device") or args[0].device
    source = args[1] if len(args) > 1 else args[0]
    if not source.dim() or source.device.type == torch.device(into).type:
        return None
    if (kwargs.get("non_blocking") or args[2:] == (True,)) and source.is_pinned():
        return None
    return FROZEN if source.device.type == "cpu" else READ


def _asked_by() -> str:
    """File and line of the nearest caller outside torch and this file."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file != __file__ and f"{torch.__path__[0]}/" not in file:
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return "nobody"
