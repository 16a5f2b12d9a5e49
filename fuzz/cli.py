"""The command line `draftproof`. Each command's work is imported only when it is called."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from draftproof.sim.errors import DraftproofError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (README, "Exit codes")."""
    arguments = _parser().parse_args(argv)
    command = import_module(f"draftproof.fuzz.commands.{arguments.command}")
    try:
        code: int = command.run(arguments)
        return code
    except DraftproofError as error:
        print(f"draftproof: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone; there is nobody to tell
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="draftproof",
        description="Checks a DSpark implementation against its specification, step by step.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    validate = commands.add_parser(
        "validate", help="check recordings of a live engine against the model"
    )
    validate.add_argument("recordings", nargs="+", type=Path, metavar="RECORDING")
    return parser


if __name__ == "__main__":
    sys.exit(main())
