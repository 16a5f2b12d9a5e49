"""The command line `draftproof`. Each command's work is imported only when it is called."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from draftproof.fuzz.report import STEP_TIMEOUT
from draftproof.fuzz.supervise import leave
from draftproof.sim.errors import DraftproofError, NoVerdict

MOST_RANKS = 8
TORCH_WORKER = "draftproof.gpu.worker:make"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code, one of those in the README."""
    words = sys.argv[1:] if argv is None else list(argv)
    arguments = parser().parse_args(words)
    arguments.argv = words
    command = import_module(f"draftproof.fuzz.commands.{arguments.command}")
    try:
        code: int = command.run(arguments)
        return code
    except DraftproofError as error:
        print(f"draftproof: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("draftproof: interrupted, no verdict", file=sys.stderr)
        return NoVerdict.exit_code
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone; there is nobody to tell
        return 1


def parser() -> argparse.ArgumentParser:
    """Every command and its options."""
    parser = argparse.ArgumentParser(
        prog="draftproof",
        description="Checks a DSpark implementation against its specification, step by step.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_check(commands.add_parser("check", help="random schedules, model against implementation"))
    replay = commands.add_parser("replay", help="run a saved trace again")
    replay.add_argument("trace", type=Path, metavar="TRACE")
    _add_subject(replay, None)
    shrink = commands.add_parser("shrink", help="make a failing trace minimal")
    shrink.add_argument("trace", type=Path, metavar="TRACE")
    shrink.add_argument("--out", type=Path, required=True, metavar="OUT")
    _add_subject(shrink, None)
    validate = commands.add_parser(
        "validate", help="check recordings of a live engine against the model"
    )
    validate.add_argument("recordings", nargs="+", type=Path, metavar="RECORDING")
    _add_explore(commands.add_parser("explore", help="every schedule of a small scope"))
    _add_fuzz(commands.add_parser("fuzz", help="long campaigns, on many cores or machines"))
    _add_defects(commands.add_parser("defects", help="plant each known defect and find it"))
    _add_faults(commands.add_parser("faults", help="every fault, on one to four ranks"))
    _add_ranks(commands.add_parser("ranks", help="ranks that are processes of their own"))
    _add_bench(commands.add_parser("bench", help="the performance table"))
    return parser


def _add_check(check: argparse.ArgumentParser) -> None:
    _add_subject(check, TORCH_WORKER)
    check.add_argument("--examples", type=_positive, metavar="N", help="cases to check")
    check.add_argument("--steps", type=_positive, metavar="N", help="steps to check (20000)")
    check.add_argument("--minutes", type=_time, metavar="M", help="time to check for at most")
    check.add_argument(
        "--least",
        type=_positive,
        default=1_000,
        metavar="N",
        help="steps without which running out of time is no verdict (1000)",
    )
    check.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the schedules (0)")
    check.add_argument("--ranks", type=_ranks, default=0, metavar="N", help="on so many ranks")


def _add_faults(faults: argparse.ArgumentParser) -> None:
    _add_subject(faults, TORCH_WORKER)
    faults.add_argument(
        "--steps", type=_positive, default=20_000, metavar="N", help="of all ranks (20000)"
    )
    faults.add_argument("--seed", type=int, default=0, metavar="S", help="of the schedules (0)")
    faults.add_argument("--write", type=Path, metavar="PAGE", help="write the table there")


def _add_ranks(ranks: argparse.ArgumentParser) -> None:
    _add_subject(ranks, TORCH_WORKER, timeout=False, traces=False)
    ranks.add_argument("--processes", type=_ranks, default=2, metavar="N", help="how many (2)")
    ranks.add_argument("--examples", type=_positive, default=20, metavar="N", help="cases (20)")
    ranks.add_argument("--seed", type=int, default=0, metavar="S", help="of the schedules (0)")
    ranks.add_argument(
        "--patience", type=_time, default=60.0, metavar="S", help="a case may take so long (60)"
    )


def _add_explore(explore: argparse.ArgumentParser) -> None:
    _add_subject(explore, TORCH_WORKER)
    numbers = (
        ("requests", 2, "requests at the same time, and slots"),
        ("lives", 3, "requests in all"),
        ("block", 2, "K"),
        ("window", 3, "W"),
        ("stages", 1, "stages"),
        ("limit", 6, "most tokens of a request"),
        ("events", 6, "moves in a sequence"),
    )
    for name, default, meaning in numbers:
        explore.add_argument(
            f"--{name}", type=_positive, default=default, metavar="N", help=f"{meaning} ({default})"
        )
    explore.add_argument("--seam", default="draft", help="where a step may fail, or none (draft)")
    explore.add_argument("--subsets", action="store_true", help="any subset in each batch")
    explore.add_argument(
        "--expect",
        type=_positive,
        nargs=3,
        metavar=("EDGES", "STATES", "MODELS"),
        help="exact counts, else exit code 6",
    )
    explore.add_argument(
        "--symmetry", action="store_true", help="merge states that differ in names alone"
    )


def _add_fuzz(fuzz: argparse.ArgumentParser) -> None:
    _add_subject(fuzz, TORCH_WORKER, traces=False)
    fuzz.add_argument("--minutes", type=_time, metavar="M", help="time to look for at most")
    fuzz.add_argument("--cases", type=_positive, metavar="N", help="cases, in chunks of 16")
    fuzz.add_argument("--workers", type=_positive, default=1, metavar="N", help="processes (1)")
    fuzz.add_argument(
        "--corpus", type=Path, default=Path("corpus"), metavar="D", help="for traces (corpus)"
    )
    fuzz.add_argument("--on", choices=("local", "ray"), default="local", help="where (local)")
    fuzz.add_argument(
        "--driver", choices=("mixed", "uniform", "swarm"), default="mixed", help="(mixed)"
    )
    fuzz.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the schedules (0)")
    fuzz.add_argument(
        "--goal",
        choices=("points", "matrix", "none"),
        default="points",
        help="what has to be hit, else 6: every point, every cell of the matrix, nothing (points)",
    )
    fuzz.add_argument("--matrix", type=Path, metavar="PAGE", help="write its table there")
    fuzz.add_argument("--minimal", action="store_true", help="make its traces smaller in the end")
    fuzz.add_argument("--report", type=Path, metavar="F", help="write the coverage there, as JSON")
    fuzz.add_argument(
        "--memory", type=_positive, default=2048, metavar="MIB", help="of a process (2048)"
    )


def _add_defects(defects: argparse.ArgumentParser) -> None:
    defects.add_argument("names", nargs="*", metavar="NAME", help="which ones (all)")
    defects.add_argument(
        "--seeds",
        type=_positive,
        metavar="N",
        help="0 .. N - 1 (2; for the core 20)",
    )
    defects.add_argument("--workers", type=_positive, default=1, metavar="N", help="processes (1)")
    defects.add_argument("--json", action="store_true", help="print the record as JSON")
    defects.add_argument(
        "--save", type=Path, metavar="D", help="write defects.json, its pages and traces there"
    )
    defects.add_argument("--traces", type=Path, metavar="D", help="save the shrunk traces there")


def _add_bench(bench: argparse.ArgumentParser) -> None:
    parts = ("lockstep", "generation", "throughput", "failures", "memory", "drivers", "kernels")
    bench.add_argument("--json", action="store_true", help="print the figures as JSON")
    bench.add_argument(
        "--part", nargs="+", choices=parts, default=parts, metavar="NAME", help=", ".join(parts)
    )
    bench.add_argument("--quick", action="store_true", help="see that it works, in a few seconds")
    bench.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="of part kernels")


def _add_subject(
    parser: argparse.ArgumentParser,
    implementation: str | None,
    timeout: bool = True,
    traces: bool = True,
) -> None:
    """What is tested, how long it may take, and where failing traces go."""
    parser.add_argument(
        "--implementation",
        default=implementation,
        metavar="M:F",
        help=f"module:factory or path.py:factory ({implementation or 'the one in the trace'})",
    )
    parser.add_argument(
        "-o", "--option", action=_Options, default={}, metavar="KEY=VALUE", help="for the factory"
    )
    parser.add_argument("--device", default=implementation and "cpu", help="cpu or cuda")
    if timeout:
        parser.add_argument(
            "--step-timeout",
            type=_time,
            default=STEP_TIMEOUT,
            metavar="S",
            help=f"a step may take so long ({STEP_TIMEOUT:g})",
        )
    if traces:
        parser.add_argument(
            "--trace-dir",
            type=Path,
            default=Path("traces"),
            metavar="D",
            help="for failures (traces)",
        )


class _Options(argparse.Action):
    """Collects key=value pairs."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        key, equals, value = str(values).partition("=")
        if not key or not equals:
            parser.error(f"argument {option_string}: {values!r} is not KEY=VALUE")
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), key: value})


def _ranks(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_RANKS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of ranks, 1 to {MOST_RANKS}")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _time(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < 1e6:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a time of more than 0 and below 1e6")


if __name__ == "__main__":
    leave(main())
