"""Every recording of a live worker, replayed through ours (tests/data/recordings/README.md)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from draftproof.gpu.worker import DSparkWorker
from draftproof.reference.vocabulary import Batch, WorkerState

RECORDINGS = sorted((Path(__file__).parents[1] / "data" / "recordings").glob("*.jsonl"))


class Injected(Exception):
    """What the recorded drafter raised."""


def test_all_recordings_are_here() -> None:
    """If this fails, the test below proves less than it says."""
    assert len(RECORDINGS) == 192


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recording(
    path: Path, build: Callable[..., Batch], worker: Callable[..., DSparkWorker]
) -> None:
    """If this fails, slots, counters or visible frames differ from those of a live worker."""
    header, *lines = (json.loads(line) for line in path.read_text().splitlines())
    config, failing = header["config"], False

    def at(seam: str) -> None:
        if failing and seam == "draft":
            raise Injected

    rows = [len(line["generations"]) + line["num_padding"] for line in lines]
    ours = worker(
        at,
        max_draft_len=config["block_size"],
        window_size=config["window_size"],
        num_stages=config["num_stages"],
        max_num_requests=config["max_num_requests"],
        graph_batch_sizes=(max(rows),),
    )
    for step, line in enumerate(lines):
        batch = build(
            line["draft_len"],
            [tuple(row.values()) for row in line["contexts"]],
            [(*list(row.values())[:3], row["num_accepted"] or 1) for row in line["generations"]],
            line["num_padding"],
            step,
        )
        failing = line["failed"]
        ours.prepare(batch)
        if failing:
            with pytest.raises(Injected):
                ours.forward(batch)
        elif line["mode"] != "warmup":
            ours.forward(batch)
        assert shown(ours.state(), failing) == recorded(line["state"], failing), f"step {step}"


def shown(state: WorkerState, failed: bool) -> dict[str, Any]:
    """Our state in the words of a recording; of failed steps the slot map only."""
    assert state.slots is not None
    rows = {}
    for request, slot in state.slots.items():
        row: dict[str, Any] = {"slot": slot}
        if not failed:
            end, valid = state.ctx_len[slot], state.valid_len[slot]
            row |= {"ctx_len": end, "valid_len": valid, "initialized": state.initialized[slot]}
            row["frames"] = {
                str(end - valid + 1 + i): names(state.windows[slot], i) for i in range(valid)
            }
        rows[str(request)] = row
    return {"rows": rows, "free": state.free_slots}


def names(stages: list[list[list[int]]], frame: int) -> list[int]:
    """Incarnation and position of a frame, which all stages must agree on."""
    rows = [stage[frame] for stage in stages]
    assert [row[6] for row in rows] == list(range(len(rows)))
    assert all(row[:6] == rows[0][:6] for row in rows)
    row = rows[0]
    return [row[0] + 128 * row[1], row[2] + 128 * row[3]]


def recorded(state: dict[str, Any], failed: bool) -> dict[str, Any]:
    """The recorded state, cut like ours."""
    kept = {
        request: {"slot": row["slot"]} if failed else row for request, row in state["rows"].items()
    }
    return {"rows": kept, "free": state["free"]}
