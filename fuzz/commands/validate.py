"""`draftproof validate`: recordings of a live engine against the model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import FileError
from draftproof.sim.recordings import validate


def run(arguments: argparse.Namespace) -> int:
    """Check every file; 3 if one could not be read, else 1 if one disagrees, else 0."""
    paths = [path for given in arguments.recordings for path in _files(given)]
    codes, steps = [0], 0
    for path in paths:
        try:
            steps += validate(path)
        except Divergence as divergence:
            print(f"{path}: disagrees with the model\n{divergence}\n")
            codes.append(1)
        except FileError as error:
            print(f"draftproof: {error}", file=sys.stderr)
            codes.append(error.exit_code)
    failed = len(codes) - 1
    print(f"{len(paths) - failed} of {len(paths)} recordings agree with the model, {steps} steps")
    return max(codes)


def _files(path: Path) -> list[Path]:
    """A folder stands for the recordings in it."""
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.jsonl"))
    if not files:
        raise FileError(f"{path}: no recordings (*.jsonl) in this folder")
    return files
