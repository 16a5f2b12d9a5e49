"""The command line as users run it: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

MODEL = "draftproof.reference.model:make"
"""The implementation that is always right, and needs no torch."""


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "draftproof.fuzz.cli", *map(str, arguments)]


def clean(**more: str) -> dict[str, str]:
    """The environment without what would let the process find more than is installed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**environment, **more}


def draftproof(*arguments: object, cwd: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; a traceback of our own is never an answer."""
    done = subprocess.run(
        command(*arguments), cwd=cwd, capture_output=True, text=True, check=False,
        env=clean(**more),
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done
