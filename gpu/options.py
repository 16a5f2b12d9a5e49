"""What `make` can be told with `-o key=value`."""

from __future__ import annotations

from typing import NamedTuple

import torch

ALLOWED = {
    "dtype": ("bfloat16", "float32"),
    "kernels": ("eager", "triton"),
    "graphs": ("off", "on"),
}
"""Every option with its values, the default first."""


class Options(NamedTuple):
    """dtype: that of the windows; kernels: who does the device work, torch's operations or Triton
    kernels; graphs: steps of mode "replay" replay a captured graph.
    """

    dtype: torch.dtype
    kernels: str
    graphs: bool


def device_named(name: str) -> torch.device:
    """The device "cpu" or "cuda", or one of several. Raises ValueError if it is not there."""
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device {name!r}: torch {torch.__version__} finds no GPU here")
    return torch.device(name)


def read_options(**given: str) -> Options:
    """Options by their names. Raises ValueError for an unknown one, or an unknown value."""
    for name, value in given.items():
        if name not in ALLOWED:
            raise ValueError(f"unknown option {name!r}: there are {', '.join(map(repr, ALLOWED))}")
        if value not in ALLOWED[name]:
            known = " or ".join(map(repr, ALLOWED[name]))
            raise ValueError(f"option {name} is {value!r}: it must be {known}")
    chosen = {name: given.get(name, values[0]) for name, values in ALLOWED.items()}
    return Options(
        dtype=getattr(torch, chosen["dtype"]),
        kernels=chosen["kernels"],
        graphs=chosen["graphs"] == "on",
    )
