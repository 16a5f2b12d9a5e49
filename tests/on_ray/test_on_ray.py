"""The same campaign on a Ray cluster; here a local one.

pip install 'draftproof[ray]', then pytest tests/on_ray
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from command import MODEL, clean, command, draftproof

TROUBLED = Path(__file__).parent.parent / "campaign" / "data" / "troubled.py"

pytestmark = pytest.mark.timeout(300)


def campaign(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    short = "fuzz", "--cases", 64, "--goal", "none"
    return draftproof(*short, "--report", "report.json", *words, cwd=folder)


def outcome(folder: Path) -> tuple[Any, dict[str, bytes]]:
    files = {path.name: path.read_bytes() for path in (folder / "corpus").rglob("*.jsonl")}
    return json.loads((folder / "report.json").read_text()), files


def test_ray_comes_to_the_same_as_this_machine(tmp_path: Path) -> None:
    """If this fails, a cluster checks something else than one machine does."""
    here = campaign(tmp_path / "here", "--implementation", MODEL)
    there = campaign(tmp_path / "there", "--implementation", MODEL, "--on", "ray", "--workers", 2)
    assert (here.returncode, there.returncode) == (0, 0), there.stderr
    assert outcome(tmp_path / "here") == outcome(tmp_path / "there")


def test_failures_come_back_from_ray(tmp_path: Path) -> None:
    """If this fails, what a cluster finds stays there."""
    words = ("--implementation", f"{TROUBLED}:Miscounts", "-o", f"path={tmp_path}")
    here = campaign(tmp_path / "here", *words)
    there = campaign(tmp_path / "there", *words, "--on", "ray", "--workers", 2)
    assert (here.returncode, there.returncode) == (1, 1), there.stderr
    assert outcome(tmp_path / "here") == outcome(tmp_path / "there")


def test_a_worker_that_dies_is_tried_once_more(tmp_path: Path) -> None:
    """If this fails, one killed process of a cluster ends the campaign, or loses cases."""
    words = ("--implementation", f"{TROUBLED}:DiesOnce", "-o", f"path={tmp_path / 'mark'}")
    done = campaign(tmp_path / "once", *words, "--on", "ray", "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert "cases            64 passed" in done.stdout


def test_what_always_kills_its_process_ends_the_campaign(tmp_path: Path) -> None:
    """If this fails, a campaign goes on for ever over a task that nobody survives."""
    words = ("--implementation", f"{TROUBLED}:DiesOfResets", "-o", f"path={tmp_path}")
    done = campaign(tmp_path / "dies", *words, "--on", "ray", "--workers", 2)
    assert done.returncode == 4
    assert "--on local with the same seed says in which case" in done.stderr


def listeners(pids: set[int]) -> set[str]:
    """Addresses on which these processes listen, as the kernel has them."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                target = str(link.readlink())
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.add(fields[1].split(":")[0])
    return found


def descendants(root: int) -> set[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(text.rpartition(")")[2].split()[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def test_a_local_cluster_listens_on_the_loopback_address_only(tmp_path: Path) -> None:
    """If this fails, a campaign opens this machine to the network."""
    words = command("fuzz", "--minutes", 5, "--implementation", MODEL, "--on", "ray")
    seen: set[str] = set()
    with subprocess.Popen(
        words, cwd=tmp_path, env=clean(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            seen |= listeners(descendants(process.pid))
            if list(tmp_path.glob("corpus/coverage/*.jsonl")):
                break
            time.sleep(0.2)
        seen |= listeners(descendants(process.pid))
        process.send_signal(2)
        process.wait(60)
    assert seen
    loopback = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
    assert seen <= loopback, sys.version
