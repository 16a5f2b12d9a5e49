"""One rank in a process of its own: `python -m draftproof.fuzz.ranks.process JSON`.

The schedule is the same in every process, for it follows from the seed; what the ranks have in
common is real: row counts are gathered, and the draft MoE's barrier is crossed, by
`torch.distributed` over the loopback interface.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

from draftproof.fuzz.ranks.cases import seeded_world
from draftproof.properties.broken import broken
from draftproof.properties.rank_check import lent_to_rank
from draftproof.reference.vocabulary import ConfigError
from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import ImplementationError
from draftproof.sim.faults import Faults
from draftproof.sim.loading import load
from draftproof.sim.lockstep import Checked, MakeWorker, Side, located
from draftproof.sim.ranks import World
from draftproof.sim.run import Crossed, Expected

START = 60.0
"""Seconds more that loading torch and meeting the others may take."""

OVER = -1
"""What a rank tells instead of its rows when it cannot go on with a case."""


def place(device: str, rank: int, ranks: int, gpus: int) -> tuple[str, int | None]:
    """By what ranks talk, and which GPU this one has, if any. On `cuda` ranks share GPUs if there
    are too few; then they talk by gloo, for nccl wants one for each."""
    if device != "cuda" or not gpus:
        return "gloo", None
    return "nccl" if gpus >= ranks else "gloo", rank % gpus


class Peers:
    """The other ranks. A group for what hosts gather, and one for the barrier, for a rank that
    misses a call of one must not meet its peers in the other."""

    def __init__(self, rank: int, ranks: int, store: Path, patience: float, device: str) -> None:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        backend, gpu = place(device, rank, ranks, torch.cuda.device_count())
        if gpu is not None:
            torch.cuda.set_device(gpu)  # so "cuda" is this one, also for the worker
        self._device = "cuda" if backend == "nccl" else "cpu"
        wait = timedelta(seconds=10 * patience)
        init = f"file://{store}"
        dist.init_process_group(backend, init, rank=rank, world_size=ranks, timeout=wait)
        self.rank, self.ranks = rank, ranks
        self._torch, self._dist = torch, dist
        self._hosts, self._barrier = dist.new_group(), dist.new_group()

    def gather(self, rows: int) -> list[int]:
        """What each rank drafts."""
        return [row[0] for row in self._exchange([rows], self._hosts)]

    def cross(self, stage: int, rows: int, counts: Sequence[int]) -> None:
        """The barrier of one stage. Raises the Divergence of ranks that meet, but do not agree."""
        met = self._exchange([stage, rows, *counts], self._barrier)
        for rank, (other, brought, *others) in enumerate(met):
            if (other, others) != (stage, list(counts)):
                told = f"rank {rank} is at stage {other} with rows {others}"
                broken("I12", f"stage {stage}, rows {list(counts)}", told, "deadlock")
            if brought not in (counts[rank], 1):
                broken("I12", f"rank {rank}: {counts[rank]} rows", brought, "deadlock")

    def leave(self) -> None:
        """When everybody is done."""
        self._dist.barrier()
        self._dist.destroy_process_group()

    def _exchange(self, numbers: Sequence[int], group: Any) -> list[list[int]]:
        own = self._torch.tensor(list(numbers), dtype=self._torch.int64, device=self._device)
        met = [self._torch.empty_like(own) for _ in range(self.ranks)]
        self._dist.all_gather(met, own, group=group)
        return [one.tolist() for one in met]


def play(world: World, peers: Peers, make: MakeWorker) -> tuple[int, bool]:
    """This rank's part of a world, in lockstep. Returns its steps, and whether those were all: a
    case is over for everybody where a fault finds no seam. Raises the first Divergence."""
    run, faults, crossed, checked = world.ranks[peers.rank], Faults(), list[Crossed](), Checked()
    worker = make(run.config, lent_to_rank(run.config, faults, crossed, peers.cross))
    side, whole = Side(worker, run.config, faults, checked, 0.0, crossed=crossed), True
    for number, expected in enumerate(run.steps):
        with located(expected):
            if not _gather(peers, expected, whole):
                return number, False
            whole = side.step(expected)
            if whole and expected.never_forward:
                for call in expected.crossed:  # the harness crosses for a rank that never got there
                    peers.cross(*call)
    return len(run.steps), whole


def _gather(peers: Peers, expected: Expected, whole: bool) -> bool:
    """False if the case is over for some rank."""
    batch = expected.batch
    assert batch.rank_rows is not None
    gathered = peers.gather(batch.rank_rows[peers.rank] if whole else OVER)
    if OVER in gathered:
        return False
    if gathered != list(batch.rank_rows):
        broken("I12", list(batch.rank_rows), gathered, "deadlock")
    return True


def main(given: dict[str, Any]) -> int:
    """Exit code 0; 1 or 4 with a report."""
    rank, folder = given["rank"], Path(given["folder"])
    counts = {"steps": 0, "refused": 0, "cut": 0}
    with (folder / f"stack-{rank}").open("w") as stack:
        try:
            _play_all(given, stack, counts)
        except Divergence as divergence:
            divergence.rank = rank
            (folder / f"report-{rank}").write_text(f"case         {given['case']}\n{divergence}\n")
            return 1
        except ImplementationError as error:
            (folder / f"report-{rank}").write_text(f"{error}\n")
            return 4
        faulthandler.cancel_dump_traceback_later()
    told = {**counts, "refusal": given.get("refusal", "")}
    (folder / f"counts-{rank}").write_text(json.dumps(told))
    return 0


def _play_all(given: dict[str, Any], stack: TextIO, counts: dict[str, int]) -> None:
    """Every case; its number is in `given` as long as it is under way, the last refusal too."""
    rank, ranks, patience = given["rank"], given["ranks"], given["patience"]
    faulthandler.dump_traceback_later(START + patience, file=stack)
    make = load(given["implementation"], given["device"], given["options"])
    peers = Peers(rank, ranks, Path(given["folder"]) / "store", patience, given["device"])
    for index in range(given["examples"]):
        given["case"] = index
        world = seeded_world(given["seed"], index, ranks, disturb=given["disturb"])
        faulthandler.dump_traceback_later(patience, file=stack)
        try:
            steps, whole = play(world, peers, make)
        except ConfigError as error:  # as the factories of all ranks do, so nobody waits
            counts["refused"] += 1
            given["refusal"] = str(error)
            continue
        counts["steps"] += steps
        counts["cut"] += not whole
    peers.leave()


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
