"""`draftproof ranks`: the schedules of `draftproof check --ranks N` on real processes."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from draftproof.fuzz.ranks.cases import DISTURB
from draftproof.sim.errors import ImplementationError
from draftproof.sim.loading import load

GRACE = 1.0
"""Seconds for the other ranks to say where they are, when one has hung or failed."""
POLL = 0.05


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0; 1 if ranks disagree, or one hangs or dies, with the stack of each; 4 if the
    implementation cannot be made."""
    load(arguments.implementation, arguments.device, arguments.option)  # else every rank complains
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        children = [_start(arguments, rank, folder) for rank in range(arguments.processes)]
        try:
            codes = _wait(children, folder, arguments.patience)
        finally:
            for child in children:
                if child.poll() is None:
                    child.kill()
                child.wait()
        return _tell(arguments, codes, folder)


def _start(arguments: argparse.Namespace, rank: int, folder: Path) -> subprocess.Popen[bytes]:
    given = {
        "rank": rank,
        "ranks": arguments.processes,
        "folder": str(folder),
        "implementation": arguments.implementation,
        "options": arguments.option,
        "device": arguments.device,
        "examples": arguments.examples,
        "seed": arguments.seed,
        "disturb": DISTURB,
        "patience": arguments.patience,
    }
    command = [sys.executable, "-m", "draftproof.fuzz.ranks.process", json.dumps(given)]
    log = (folder / f"log-{rank}").open("wb")
    with log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def _wait(
    children: list[subprocess.Popen[bytes]], folder: Path, patience: float
) -> list[int | None]:
    """The ranks' exit codes; None for one that had to be ended. Never waits for ever."""
    ending = None
    while ending is None or monotonic() < ending:
        codes = [child.poll() for child in children]
        if None not in codes:
            return codes
        hung = any(_text(folder / f"stack-{rank}") for rank in range(len(children)))
        if ending is None and (hung or any(codes)):
            # Whoever waits for a rank that has failed shows its stack when patience ends.
            ending = monotonic() + (GRACE if hung else patience + GRACE)
        sleep(POLL)
    return [child.poll() for child in children]


def _tell(arguments: argparse.Namespace, codes: list[int | None], folder: Path) -> int:
    ranks = range(len(codes))
    if 4 in codes:
        raise ImplementationError(_text(folder / f"report-{codes.index(4)}").strip())
    if not any(codes) and None not in codes:
        counts = [json.loads(_text(folder / f"counts-{rank}")) for rank in ranks]
        steps, refused = sum(count["steps"] for count in counts), counts[0]["refused"]
        cases, cut = arguments.examples - refused, max(count["cut"] for count in counts)
        if not cases:
            raise ImplementationError(
                f"the factory refused each of {refused} configurations, "
                f"the last with: {counts[0]['refusal']}"
            )
        print(f"{cases} cases, {steps:,} steps on {len(codes)} processes: they agree")
        if refused:
            print(f"{refused} cases that the factory refused")
        if cut:
            print(f"{cut} cases ended at a fault whose seam the implementation never calls")
        return 0
    for rank, code in zip(ranks, codes, strict=True):
        print(f"---- rank {rank} {_ended(code)}")
        for name in ("report", "stack", "log"):
            print(_text(folder / f"{name}-{rank}"), end="")
    return 1


def _ended(code: int | None) -> str:
    if code is None:
        return "hangs"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
