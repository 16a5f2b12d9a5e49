"""`make gpu-check`: everything that has to be seen on a GPU once, in one run of a few minutes.

Each part runs in a process of its own, since a kernel that reads out of bounds ends its process,
and in the time that is left; a part that finds none is not ok. `docs/gpu.md` says how to run it on
a machine that has nothing but torch and this repository. What this file imports at its top is there
everywhere, so that it can say what is missing.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NO_VERDICT = 5  # exit code
OK, FAILED, LATE, ABSENT = "ok", "failed", "out of time", "absent"
MEASURING = ("timings", "kernels")
OWN = ("properties", *MEASURING)
"""Parts that are run by this file itself, those that print figures apart."""

NEEDED = ("torch", "numpy", "msgspec")
"""Packages without which nothing can be checked."""

DEVICE_TESTS = ("test_gpu_worker.py", "test_gpu_graphs.py", "test_gpu_capture_safety.py")
"""Tests of `tests/gpu` that run on the device, by way of DRAFTPROOF_DEVICE."""

MODEL_TESTS = "kernels/test_kernels_model.py"
"""The draft model's kernels, which are not in the worker, against their twins."""

CPU_ONLY = "not capture_that_fails and not copies_between and not what_is_not_safe"
"""Of `tests/gpu`, the ones about the stand-in for a graph, or that would break a GPU's context."""


@dataclass(frozen=True, slots=True)
class Part:
    """A command and how many seconds it may take; environment: variables of its own.

    needs, packages: a program and Python packages, without which the part is absent.
    """

    name: str
    command: tuple[str, ...]
    seconds: float
    environment: dict[str, str] = field(default_factory=dict)
    needs: str | None = None
    packages: tuple[str, ...] = ()

    def lacks(self) -> list[str]:
        """What of that is not here."""
        program = [] if self.needs is None or shutil.which(self.needs) else [self.needs]
        return program + lacking(self.packages)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a part; told: the last line it printed."""

    name: str
    verdict: str
    seconds: float
    told: str = ""
    output: str = ""


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 if every part is ok or its tool absent, 1 if one failed, 5 if time ran out, or if
    nothing can run here, which one sentence says.
    """
    arguments = _parser().parse_args(argv)
    obstacle = what_prevents(arguments.device)
    if obstacle is not None:
        print(f"gpu-check: {obstacle}", file=sys.stderr)
        return NO_VERDICT
    if arguments.part is not None:
        from draftproof.fuzz.gpu_parts import PARTS

        return PARTS[arguments.part](arguments.device, arguments.quick)
    deadline = monotonic() + 60 * arguments.minutes
    outcomes = []
    for part in parts(arguments.device, arguments.quick):
        print(f"{part.name} ...", file=sys.stderr, flush=True)
        outcomes.append(run(part, deadline))
        if outcomes[-1].verdict == FAILED:
            print(outcomes[-1].output, file=sys.stderr, flush=True)
    figures = {name: _figures(name, outcomes) for name in MEASURING}
    about = environment(arguments.device)
    report = {
        "environment": about,
        "parts": [_record(outcome) for outcome in outcomes],
        **figures,
    }
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    print("\n".join(lines(about, outcomes, figures)))
    verdicts = {outcome.verdict for outcome in outcomes}
    return 1 if FAILED in verdicts else 5 if LATE in verdicts else 0


def what_prevents(device: str) -> str | None:
    """Why nothing can be checked here, in one sentence; None if it can."""
    missing = lacking(NEEDED)
    if missing:
        return (
            f"this Python ({sys.executable}) has no {', no '.join(missing)}: install what is "
            "missing, or bring it along, as docs/gpu.md says"
        )
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        return f"torch {torch.__version__} finds no GPU here: run it where there is one"
    return None


def lacking(packages: tuple[str, ...]) -> list[str]:
    """Those that cannot be imported."""
    return [name for name in packages if importlib.util.find_spec(name) is None]


def parts(device: str, quick: bool) -> list[Part]:
    """What is run, the most telling first. quick: enough to see that each part runs."""
    chosen = CPU_ONLY if device != "cpu" else "not triton and not random"
    own, how = _python("draftproof.fuzz.gpu_check"), ("--device", device, *["--quick"] * quick)
    return [
        _lockstep(device, quick, "eager", "on", 40),
        _lockstep(device, quick, "triton", "on", 50),
        _lockstep(device, quick, "eager", "off", 25),
        _lockstep(device, quick, "triton", "off", 25),
        Part("timings", (*own, "timings", *how), 40),
        _tests("tests", device, [f"gpu/{name}" for name in DEVICE_TESTS], chosen, 80),
        _tests("draft model", device, [MODEL_TESTS], "whole" if quick else "one or whole", 50),
        Part("properties", (*own, "properties", *how), 50, packages=("hypothesis",)),
        Part("kernels", (*own, "kernels", *how), 75),
        _sanitizer(device, quick),
    ]


def _tests(name: str, device: str, files: list[str], chosen: str, seconds: float) -> Part:
    """Files of `tests/`, and an expression that chooses among their tests."""
    versions = ("-o", "minversion=8.0", "-o", "filterwarnings=default", "-o", "addopts=")
    pytest = (*_python("pytest"), "-q", "-x", "-p", "no:cacheprovider", *versions, "-k", chosen)
    command = (*pytest, *(str(ROOT / "tests" / file) for file in files))
    packages = ("pytest", "hypothesis")
    return Part(name, command, seconds, {"DRAFTPROOF_DEVICE": device}, packages=packages)


def _lockstep(device: str, quick: bool, kernels: str, graphs: str, seconds: float) -> Part:
    """Random schedules, model against worker, for most of its time; quick: a few cases."""
    amount = ["--minutes", f"{0.7 * seconds / 60:.2f}"]
    if quick:
        amount = ["--examples", "1" if kernels == "triton" else "5"]
    command = _check(device, kernels, graphs, *amount)
    return Part(f"lockstep, {kernels}, graphs {graphs}", command, seconds + 20)


def _sanitizer(device: str, quick: bool) -> Part:
    """One case with every kernel watched for accesses out of bounds.

    Without a caching allocator, for which every small tensor lies inside a large block; it cannot
    capture then.
    """
    if device == "cpu":
        return Part("compute-sanitizer", (), 0, needs="a GPU")
    tool: tuple[str, ...] = ("compute-sanitizer", "--tool", "memcheck", "--target-processes", "all")
    tool += ("--error-exitcode", "9")
    check = _check(device, "triton", "off", "--examples", "1" if quick else "3")
    own = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    return Part("compute-sanitizer", (*tool, *check), 80, own, needs="compute-sanitizer")


def _check(device: str, kernels: str, graphs: str, *amount: str) -> tuple[str, ...]:
    options = ("-o", f"kernels={kernels}", "-o", f"graphs={graphs}")
    how = ("--device", device, "--seed", "5", "--step-timeout", "120", *options, *amount)
    return (*_python("draftproof.fuzz.cli"), "check", *how)


def _python(module: str) -> tuple[str, ...]:
    return sys.executable, "-m", module


def run(part: Part, deadline: float) -> Outcome:
    """Run a part in the time that it has, and that is left."""
    absent = part.lacks()
    if absent:
        return Outcome(part.name, ABSENT, 0, f"not here: {', '.join(absent)}")
    start = monotonic()
    seconds = min(part.seconds, deadline - start)
    if seconds < 5:
        return Outcome(part.name, LATE, 0, "no time was left")
    environment = {**os.environ, **part.environment}
    try:
        done = subprocess.run(
            part.command,
            cwd=ROOT,
            env=environment,
            timeout=seconds,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(part.name, LATE, seconds, f"stopped after {seconds:.0f} s")
    told = done.stdout.strip().splitlines()[-1:] or [""]
    verdict = {0: OK, NO_VERDICT: LATE}.get(done.returncode, FAILED)
    return Outcome(part.name, verdict, monotonic() - start, told[0], done.stdout[-6_000:])


def _figures(name: str, outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """A part that measures printed its figures in its last line."""
    told = [outcome.told for outcome in outcomes if outcome.name == name]
    if not told or not told[0].startswith("["):
        return []
    figures: list[dict[str, Any]] = json.loads(told[0])
    return figures


def _record(outcome: Outcome) -> dict[str, str | float]:
    told = "" if outcome.name in MEASURING and outcome.verdict == OK else outcome.told
    seconds = round(outcome.seconds, 1)
    return {"name": outcome.name, "verdict": outcome.verdict, "seconds": seconds, "told": told}


def environment(device: str) -> dict[str, str]:
    """What the figures depend on."""
    import torch

    triton = "none"
    if importlib.util.find_spec("triton") is not None:
        triton = importlib.metadata.version("triton")
    name = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    return {
        "device": name,
        "torch": torch.__version__,
        "triton": triton,
        "python": platform.python_version(),
    }


def lines(
    about: dict[str, str], outcomes: list[Outcome], figures: dict[str, list[dict[str, Any]]]
) -> list[str]:
    """The report for people."""
    from draftproof.fuzz.gpu_parts import measured

    told = [", ".join(f"{name} {value}" for name, value in about.items()), ""]
    for record in map(_record, outcomes):
        told.append("{name:<30} {verdict:<12} {seconds:>6} s  {told}".format(**record))
    for name, records in figures.items():
        told += ["", *measured(name, records)]
    return told


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpu-check", description="Everything that has to be seen on a GPU once."
    )
    parser.add_argument("part", nargs="?", choices=OWN, help="only one part")
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--quick", action="store_true", help="see only that each part runs")
    parser.add_argument("--minutes", type=float, default=7.5, metavar="M", help="at most (7.5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the report for machines")
    return parser


if __name__ == "__main__":
    sys.exit(main())
