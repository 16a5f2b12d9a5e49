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
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
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

ON_A_GPU = "not capture_that_fails and not copies_between and not what_is_not_safe and not random"
"""Of `tests/gpu`, not those about the stand-in for a graph, or that would break a GPU's context;
nor the random schedules, which are parts of their own."""


@dataclass(frozen=True, slots=True)
class Part:
    """A command and how many seconds it may take; environment: variables of its own.

    needs, packages: a program and Python packages, without which the part is absent; refusal: what
    a program says that does not work on this machine; proof: what it says if it found nothing.
    """

    name: str
    command: tuple[str, ...]
    seconds: float
    environment: dict[str, str] = field(default_factory=dict)
    needs: str | None = None
    packages: tuple[str, ...] = ()
    refusal: str | None = None
    proof: str = ""

    def lacks(self) -> list[str]:
        """What of that is not here."""
        found = self.needs is None or shutil.which(self.needs, path=_path())
        program = [] if found else [str(self.needs)]
        return program + lacking(self.packages)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a part; told: the last line of its output."""

    name: str
    verdict: str
    seconds: float
    told: str = ""
    output: str = ""


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 if every part is ok or its tool absent, 1 if one failed, 5 if time ran out, or if
    nothing can run here, which one sentence says.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.json is not None and not arguments.json.parent.is_dir():
        parser.error(f"there is no folder {arguments.json.parent} for the report")
    obstacle = what_prevents(arguments.device)
    if obstacle is not None:
        print(f"gpu-check: {obstacle}", file=sys.stderr)
        return NO_VERDICT
    if arguments.part is not None:
        from draftproof.fuzz.gpu_check.parts import PARTS

        return PARTS[arguments.part](arguments.device, arguments.quick)
    deadline = monotonic() + 60 * arguments.minutes
    about = environment(arguments.device)
    outcomes: list[Outcome] = []
    figures: dict[str, list[dict[str, Any]]] = {}
    for part in parts(arguments.device, arguments.quick):
        print(f"{part.name} ...", file=sys.stderr, flush=True)
        outcomes.append(run(part, deadline))
        if outcomes[-1].verdict in (FAILED, LATE):
            print(outcomes[-1].output[-6_000:], file=sys.stderr, flush=True)
        figures = {name: _figures(name, outcomes) for name in MEASURING}
        if arguments.json is not None:  # after every part, for whoever is stopped from outside
            parts_so_far = [_record(outcome) for outcome in outcomes]
            report = {"environment": about, "parts": parts_so_far, **figures}
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
    chosen = ON_A_GPU if device != "cpu" else "not triton and not random"
    own, how = _python("draftproof.fuzz.gpu_check"), ("--device", device, *["--quick"] * quick)
    return [
        _lockstep(device, quick, "eager", "on", 40),
        _lockstep(device, quick, "triton", "on", 50),
        _lockstep(device, quick, "eager", "off", 20),
        _lockstep(device, quick, "triton", "off", 25),
        Part("timings", (*own, "timings", *how), 40),
        _tests("tests", device, [f"gpu/{name}" for name in DEVICE_TESTS], chosen, 70),
        _tests("draft model", device, [MODEL_TESTS], "whole" if quick else "one or whole", 50),
        Part("properties", (*own, "properties", *how), 50, packages=("hypothesis",)),
        Part("kernels", (*own, "kernels", *how), 90),
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
    """Random schedules, model against worker, for most of its time; quick: a few cases.

    How many steps that is nobody knows: each case has sizes of its own, for which kernels are
    compiled and graphs captured. The table says how fast they came.
    """
    amount = ["--minutes", f"{0.7 * seconds / 60:.2f}", "--least", "100"]
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
    program = "compute-sanitizer"
    tool = (program, "--tool", "memcheck", "--target-processes", "all", "--error-exitcode", "9")
    patience = ("--launch-timeout", "60")  # until torch is imported
    check = _check(device, "triton", "off", "--examples", "1" if quick else "3")
    own = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PATH": _path()}
    refusal, proof = "Device not supported", "ERROR SUMMARY: 0 errors"
    command = (*tool, *patience, *check)
    return Part(program, command, 80, own, needs=program, refusal=refusal, proof=proof)


def _path() -> str:
    """Where programs are looked for: CUDA's own are not everywhere on the path."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin"])


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
    with TemporaryFile("w+", encoding="utf-8", errors="replace") as file:
        code = _finished(part, file, seconds)
        file.seek(0)
        output = file.read()
    verdict, told = _verdict(part, code, output)
    return Outcome(part.name, verdict, monotonic() - start, told, output)


def _verdict(part: Part, code: int | None, output: str) -> tuple[str, str]:
    """What an exit code says, None if time was up, and the line for the table."""
    lines = output.strip().splitlines() or [""]
    failed = next((line for line in lines if line.startswith("FAILED")), None)
    if code is None:  # it may have been shrinking what it had found
        return (FAILED, failed) if failed else (LATE, "its time was up")
    if code and part.refusal is not None and part.refusal in output:
        return ABSENT, f"does not work here: {part.refusal}"
    if code == 0 and part.proof not in output:
        return FAILED, f"it did not say {part.proof!r}"
    return {0: OK, NO_VERDICT: LATE}.get(code, FAILED), lines[-1]


def _finished(part: Part, file: IO[str], seconds: float) -> int | None:
    """The exit code of a part, its output in the file; None: its time was up.

    Then whatever it has started ends with it, or the next part would share the GPU with that.
    """
    environment = {**os.environ, **part.environment}
    child = subprocess.Popen(
        part.command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=file,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _figures(name: str, outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """A part that measures prints what it has, again and again; the last line has the most.

    Where its time was up in the middle of a line, the one before it counts.
    """
    lines = [line for o in outcomes if o.name == name for line in o.output.splitlines()]
    for line in reversed(lines):
        if line.startswith("[{"):
            with suppress(ValueError):
                figures: list[dict[str, Any]] = json.loads(line)
                return figures
    return []


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
    from draftproof.fuzz.gpu_check.parts import measured

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
