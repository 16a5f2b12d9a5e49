"""Getting Triton ready for a device, before anything imports it."""

from __future__ import annotations

import importlib.util
import os
import sys

import torch

INTERPRET = "TRITON_INTERPRET"
"""The environment variable by which Triton interprets kernels instead of compiling them."""


def prepare(device: torch.device) -> None:
    """Make Triton compile kernels for a GPU, or interpret them for a CPU.

    The choice is the process's: Triton makes it when it is imported, so here the environment is
    set before that. Raises ValueError, one sentence, where Triton is missing or has already
    chosen otherwise.
    """
    if importlib.util.find_spec("triton") is None:
        raise ValueError(
            "kernels=triton needs Triton, which is not installed: "
            "install draftproof with its extra 'triton'"
        )
    wanted = device.type == "cpu"
    if "triton" not in sys.modules:
        if wanted:
            os.environ[INTERPRET] = "1"
        elif os.environ.get(INTERPRET, "0") not in ("", "0"):
            raise ValueError(f"kernels=triton on {device.type} needs {INTERPRET} unset")
    elif _interprets() != wanted:
        raise ValueError(
            f"kernels=triton on {device.type} needs a process in which Triton "
            f"{'interprets' if wanted else 'compiles'} kernels, but it was imported here "
            f"{'without' if wanted else 'with'} {INTERPRET}=1: set the variable accordingly "
            "before anything imports triton"
        )


def _interprets() -> bool:
    """Whether the Triton that is already here interprets kernels."""
    import triton.language as tl
    from triton.runtime.interpreter import InterpretedFunction

    return isinstance(tl.softmax, InterpretedFunction)
