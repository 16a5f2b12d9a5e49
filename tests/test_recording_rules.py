"""What `validate` accepts and refuses beyond the 192 recordings: recordings written by hand.

They are made as `docs/recordings.md` tells an engine to make them, from the model as the worker.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from batches import Row, ctx, gen, make_batch, make_model, small

from draftproof.reference.config import checked
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Config, ContextRow
from draftproof.sim.divergence import Divergence
from draftproof.sim.recordings import validate

Line = dict[str, Any]


class Recorder:
    """Runs the model and writes down what it was given and what it holds."""

    def __init__(self, **sizes: Any) -> None:
        self.config = checked(small(**sizes))
        self.model = make_model(self.config)
        self.lines: list[Line] = [header(self.config)]

    def step(self, *rows: Row, r: int = 0, counts: tuple[int, ...] = ()) -> Line:
        """One step, written down; returns its line, to be changed or not."""
        batch = make_batch(*rows, r=r, counts=counts)
        self.model.prepare(batch)
        kept = iter(self.model.forward(batch).new_tokens_lens[len(batch.contexts) :])
        line: Line = {
            "event": "step",
            "mode": "eager",
            "draft_len": r,
            "contexts": [],
            "generations": [],
            "num_padding": 0,
            "failed": False,
        }
        for row in rows:
            who = {"id": row.request_id, "incarnation": row.incarnation}
            if isinstance(row, ContextRow):
                place = {"first_position": row.first_position, "length": row.length}
                line["contexts"].append(who | place)
            else:
                done = {"position": row.position, "num_accepted": next(kept)}
                line["generations"].append(who | done)
        line["state"] = shown(self.model)
        self.lines.append(line)
        return line

    def fail(self, *rows: Row) -> Line:
        """A step of generations that failed; its rows do not count."""
        line = self.step(*rows)
        line["failed"] = True
        for row in line["generations"]:
            row["num_accepted"] = None
        return line


def header(config: Config) -> Line:
    sizes = {
        "block_size": config.max_draft_len,
        "window_size": config.window_size,
        "num_stages": config.num_stages,
        "max_num_requests": config.max_num_requests,
        "draft_len_schedule": dict(config.draft_len_schedule or ()) or None,
    }
    return {"format": "dspark-step-recording", "version": 1, "seed": 0, "config": sizes}


def shown(model: Model) -> Line:
    state, rows = model.state(), {}
    for request, (slot, incarnation) in model.slots.owned.items():
        last, valid = state.ctx_len[slot], state.valid_len[slot]
        frames = {str(f): [incarnation, f - 1] for f in range(last - valid + 1, last + 1)}
        rows[str(request)] = {
            "slot": slot,
            "ctx_len": last,
            "valid_len": valid,
            "initialized": state.initialized[slot],
            "frames": frames,
        }
    return {"rows": rows, "free": list(model.slots.free)}


def check(tmp_path: Path, recorder: Recorder) -> int:
    file = tmp_path / "run.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in recorder.lines), "utf-8")
    return validate(file)


def refused(tmp_path: Path, recorder: Recorder) -> tuple[int | None, int | None, str, str, str]:
    """Step, request, field, expected and found of the divergence."""
    with pytest.raises(Divergence) as caught:
        check(tmp_path, recorder)
    d = caught.value
    return d.step, d.request, d.field, str(d.expected), str(d.found)


# ---- what must pass ------------------------------------------------------------------------------


def test_a_run_that_no_recording_has_passes(tmp_path: Path) -> None:
    """If this fails, honest recordings of other engines are refused.

    W < K, an id that comes back at once under another incarnation, an empty chunk, an idle row,
    an empty batch, a reset, and a request that leaves and resumes.
    """
    run = Recorder(window_size=2)
    run.step(ctx(10, 0, 5), ctx(20, 0, 2, 2), r=3)
    run.step(gen(10, 5), ctx(20, 2, 0, 2), r=3, counts=(4,))
    run.step(gen(10, 3, 3), ctx(20, 0, 4, 2), r=3, counts=(2,))
    run.step(gen(20, 4, 2), gen(0, 0, 0), r=1)
    run.step(r=2)
    run.step(gen(20, 5, 2))
    assert check(tmp_path, run) == 6


def test_positions_and_incarnations_have_no_limit(tmp_path: Path) -> None:
    """If this fails, recordings of long contexts or long runs are refused, or checked wrongly.

    Hidden rows hold both numbers modulo 16,384; the recording has them in full.
    """
    run = Recorder()
    run.step(gen(10, 16_382, 20_000), r=3, counts=(4,))
    run.step(gen(10, 16_386, 20_000), r=3, counts=(1,))
    assert check(tmp_path, run) == 2
    run.lines[2]["state"]["rows"]["10"]["frames"]["16387"][1] += 1
    assert refused(tmp_path, run)[:3] == (1, 10, "frames")


def test_more_tokens_in_a_step_than_the_default_limit_pass(tmp_path: Path) -> None:
    """If this fails, recordings of engines with large chunks or many slots cannot be read."""
    run = Recorder(max_num_requests=3000, max_num_tokens=12_000)
    run.step(ctx(10, 0, 10_000))
    assert check(tmp_path, run) == 1


# ---- what must not -------------------------------------------------------------------------------


def two_steps() -> Recorder:
    run = Recorder(draft_len_schedule=((1, 3), (3, 2)))
    run.step(ctx(10, 0, 2), ctx(20, 4, 2, 2), r=2)
    run.step(gen(10, 2), ctx(20, 6, 1, 2), r=2, counts=(2,))
    return run


@pytest.mark.parametrize(
    ("line", "where", "value", "report"),
    [
        (2, ("draft_len",), 3, (1, None, "draft_len", "2", "3")),
        (2, ("mode",), "replay", (1, 20, "contexts", "none in a replay", "1")),
        (2, ("num_padding",), 1, (1, None, "num_padding", "0 in an eager step", "1")),
        (2, ("contexts", 0, "id"), 10, (1, 10, "id", "once in a batch", "2 times")),
        (2, ("generations", 0, "num_accepted"), 4, (1, 10, "num_accepted", "1..3", "4")),
        (2, ("generations", 0, "num_accepted"), 0, (1, 10, "num_accepted", "1..3", "0")),
        (
            2,
            ("generations", 0, "num_accepted"),
            None,
            (1, 10, "num_accepted", "null exactly in a failed step", "None"),
        ),
        (2, ("generations", 0, "position"), 3, (1, 10, "position", "2", "3")),
        (2, ("contexts", 0, "first_position"), 5, (1, 20, "first_position", "0 or 6", "5")),
        (1, ("contexts", 1, "first_position"), -1, (0, 20, "first_position", "at least 0", "-1")),
        (1, ("contexts", 0, "incarnation"), 0, (0, 10, "incarnation", "at least 1", "0")),
        (
            1,
            ("contexts", 1, "incarnation"),
            1,
            (0, 20, "incarnation", "not 1, which is request 10's", "1"),
        ),
        (2, ("state", "free"), [], (1, None, "free", "[2]", "[]")),
        (2, ("state", "rows", "10", "initialized"), False, (1, 10, "initialized", "True", "False")),
        (2, ("state", "rows", "10", "frames", "2"), None, (1, 10, "frames", "[1, 1]", "None")),
        (
            2,
            ("state", "rows", "10", "frames", "9"),
            [1, 8],
            (1, 10, "frames", "[1, 2, 3, 4]", "[1, 2, 3, 4, 9]"),
        ),
        (2, ("state", "rows"), {}, (1, 20, "rows", "slot 1", "no row")),
    ],
)
def test_a_broken_rule_is_reported(
    line: int, where: tuple[Any, ...], value: Any, report: tuple[Any, ...], tmp_path: Path
) -> None:
    """If this fails, a recording that contradicts itself or the model passes, or is misreported."""
    run = two_steps()
    assert check(tmp_path, run) == 2
    holder = run.lines[line]
    for part in where[:-1]:
        holder = holder[part]
    holder[where[-1]] = value
    assert refused(tmp_path, run) == report


def test_an_unscheduled_length_is_at_most_the_block(tmp_path: Path) -> None:
    """If this fails, a step that drafts more than a block passes."""
    run = Recorder()
    run.step(ctx(10, 0, 2))
    run.lines[1]["draft_len"] = 4
    assert refused(tmp_path, run) == (0, None, "draft_len", "at most 3", "4")


def test_an_incarnation_never_falls(tmp_path: Path) -> None:
    """If this fails, a request may turn into an earlier one with the same id."""
    run = Recorder()
    run.step(gen(10, 4, 2))
    run.step(gen(10, 4, 1))
    assert refused(tmp_path, run) == (1, 10, "incarnation", "at least 2", "1")


def test_nobody_survives_a_failed_step(tmp_path: Path) -> None:
    """If this fails, a request that the failure ended may go on, though its rows are undefined."""
    run = Recorder()
    run.step(ctx(10, 0, 4), ctx(20, 0, 2, 2))
    run.fail(gen(10, 4))
    run.step(gen(30, 4, 3))
    assert check(tmp_path, run) == 3
    run.step(gen(20, 2, 2))
    failed = "not 2, which failed in an earlier step"
    assert refused(tmp_path, run) == (3, 20, "incarnation", failed, "2")


def test_more_rows_than_slots_are_no_batch(tmp_path: Path) -> None:
    """If this fails, a batch that no worker may accept ends in a traceback."""
    run = Recorder()
    run.step(gen(10, 4), gen(20, 4, 2), gen(30, 4, 3))
    run.lines[0]["config"]["max_num_requests"] = 2
    reason = "batch of 3 rows, but max_num_requests is 2"
    assert refused(tmp_path, run) == (0, None, "batch", "a batch a worker accepts", reason)
