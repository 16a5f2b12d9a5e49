"""Every launch of these tests runs between guards, and in the way that a test asks for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from draftproof.gpu.kernels import launching
from kernels.guards import WAYS, guarded, run_programs


@pytest.fixture(autouse=True)
def _guards() -> Iterator[None]:
    with launching.launching_by(guarded):
        yield


@pytest.fixture(params=WAYS)
def programs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test once in each way."""
    way: str = request.param
    run_programs(way, monkeypatch)
    return way
