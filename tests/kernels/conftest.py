"""Every launch of these tests runs between guards, on poisoned outputs, as a test asks for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from device import DEVICE

from draftproof.gpu.kernels import launching
from kernels.guards import WAYS, guarded, run_programs


@pytest.fixture(autouse=True)
def _guards() -> Iterator[None]:
    """Unwritten memory is NaN, or the largest integer: torch fills it if all is deterministic.

    On a GPU not all can be.
    """
    torch.use_deterministic_algorithms(DEVICE.type == "cpu")
    with launching.launching_by(guarded), DEVICE:
        yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(params=WAYS)
def programs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test once in each way."""
    way: str = request.param
    run_programs(way, monkeypatch)
    return way
