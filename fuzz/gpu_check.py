"""`make gpu-check`: everything that has to be seen on a GPU once, in one run of a few minutes.

Each part runs in a process of its own, since a kernel that reads out of bounds ends its process,
and in the time that is left; a part that finds none is not ok. `docs/gpu.md` says how to run it on
a machine that has nothing but torch and this repository.
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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic

from draftproof.fuzz.cli import TORCH_WORKER
from draftproof.fuzz.gpu_timings import Timing, measure, table

ROOT = Path(__file__).resolve().parent.parent
NO_VERDICT = 5  # exit code
OK, FAILED, LATE, ABSENT = "ok", "failed", "out of time", "absent"

DEVICE_TESTS = ("test_gpu_worker.py", "test_gpu_graphs.py", "test_gpu_capture_safety.py")
"""Tests of `tests/gpu` that run on the device, by way of DRAFTPROOF_DEVICE."""

CPU_ONLY = "not capture_that_fails and not copies_between and not what_is_not_safe"
"""Of those, the ones that are about the stand-in for a graph, or would break a GPU's context."""


@dataclass(frozen=True, slots=True)
class Part:
    """A command and how many seconds it may take; environment: variables of its own."""

    name: str
    command: tuple[str, ...]
    seconds: float
    environment: dict[str, str] = field(default_factory=dict)
    needs: str | None = None  # a program, without which the part is absent


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a part; told: the last line it printed."""

    name: str
    verdict: str
    seconds: float
    told: str = ""
    output: str = ""


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 if every part is ok or its tool absent, 1 if one failed, 5 if time ran out."""
    arguments = _parser().parse_args(argv)
    if arguments.part == "properties":
        return _properties(arguments)
    if arguments.part == "timings":
        print(json.dumps([asdict(t) for t in measure(arguments.device, arguments.quick)]))
        return 0
    deadline = monotonic() + 60 * arguments.minutes
    outcomes = []
    for part in parts(arguments.device, arguments.quick):
        print(f"{part.name} ...", file=sys.stderr, flush=True)
        outcomes.append(run(part, deadline))
        if outcomes[-1].verdict == FAILED:
            print(outcomes[-1].output, file=sys.stderr, flush=True)
    timings = _timings(outcomes)
    about = environment(arguments.device)
    report = {
        "environment": about,
        "parts": [_record(outcome) for outcome in outcomes],
        "timings": [asdict(timing) for timing in timings],
    }
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    print("\n".join(lines(about, outcomes, timings)))
    verdicts = {outcome.verdict for outcome in outcomes}
    return 1 if FAILED in verdicts else 5 if LATE in verdicts else 0


def parts(device: str, quick: bool) -> list[Part]:
    """What is run, the most telling first. quick: enough to see that each part runs."""
    tests = [str(ROOT / "tests" / "gpu" / name) for name in DEVICE_TESTS]
    chosen = CPU_ONLY if device != "cpu" else "not triton and not random"
    versions = ("-o", "minversion=8.0", "-o", "filterwarnings=default", "-o", "addopts=")
    pytest = (*_python("pytest"), "-q", "-x", "-p", "no:cacheprovider", *versions, "-k", chosen)
    own, how = _python("draftproof.fuzz.gpu_check"), ("--device", device, *["--quick"] * quick)
    return [
        _lockstep(device, quick, "eager", "on", 50),
        _lockstep(device, quick, "triton", "on", 60),
        _lockstep(device, quick, "eager", "off", 30),
        _lockstep(device, quick, "triton", "off", 30),
        Part("timings", (*own, "timings", *how), 60),
        Part("tests", (*pytest, *tests), 80, {"DRAFTPROOF_DEVICE": device}),
        Part("properties", (*own, "properties", *how), 60),
        _sanitizer(device, quick),
    ]


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
    return Part("compute-sanitizer", (*tool, *check), 100, own, needs="compute-sanitizer")


def _check(device: str, kernels: str, graphs: str, *amount: str) -> tuple[str, ...]:
    options = ("-o", f"kernels={kernels}", "-o", f"graphs={graphs}")
    how = ("--device", device, "--seed", "5", "--step-timeout", "120", *options, *amount)
    return (*_python("draftproof.fuzz.cli"), "check", *how)


def _python(module: str) -> tuple[str, ...]:
    return sys.executable, "-m", module


def run(part: Part, deadline: float) -> Outcome:
    """Run a part in the time that it has, and that is left."""
    if part.needs is not None and shutil.which(part.needs) is None:
        return Outcome(part.name, ABSENT, 0, f"{part.needs} is not here")
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


def _properties(arguments: argparse.Namespace) -> int:
    """The property of every schedule, drawn by Hypothesis: worker and model agree."""
    from draftproof.fuzz.cases import Subject
    from draftproof.fuzz.drivers import find_hypothesis
    from draftproof.sim.loading import load

    examples = 5 if arguments.quick else 60
    for options in ({"graphs": "on"}, {"graphs": "on", "kernels": "triton"}):
        if arguments.quick and "kernels" in options:
            examples = 1
        subject = Subject(load(TORCH_WORKER, arguments.device, options))
        found = find_hypothesis(subject, 0, examples)
        if found is not None:
            print("\n".join(found.divergence.lines()))
            return 1
    print(f"{examples} examples each of eager and Triton, with graphs")
    return 0


def _timings(outcomes: list[Outcome]) -> list[Timing]:
    """The timings part printed its figures in its last line."""
    told = [outcome.told for outcome in outcomes if outcome.name == "timings"]
    if not told or not told[0].startswith("["):
        return []
    return [Timing(**timing) for timing in json.loads(told[0])]


def _record(outcome: Outcome) -> dict[str, str | float]:
    told = "" if outcome.name == "timings" and outcome.verdict == OK else outcome.told
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


def lines(about: dict[str, str], outcomes: list[Outcome], timings: list[Timing]) -> list[str]:
    """The report for people."""
    told = [", ".join(f"{name} {value}" for name, value in about.items()), ""]
    for record in map(_record, outcomes):
        told.append("{name:<30} {verdict:<12} {seconds:>6} s  {told}".format(**record))
    return [*told, "", *table(timings)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpu-check", description="Everything that has to be seen on a GPU once."
    )
    parser.add_argument("part", nargs="?", choices=("properties", "timings"), help="only one part")
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--quick", action="store_true", help="see only that each part runs")
    parser.add_argument("--minutes", type=float, default=7.5, metavar="M", help="at most (7.5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the report for machines")
    return parser


if __name__ == "__main__":
    sys.exit(main())
