"""A folder of its own for each command, with the faulty implementations in it."""

import shutil
from pathlib import Path

import pytest

FAULTY = Path(__file__).parent / "data" / "faulty.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a command runs; `faulty.py:Wrong` and the others are there."""
    shutil.copy(FAULTY, tmp_path / "faulty.py")
    return tmp_path
