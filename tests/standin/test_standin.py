"""The stand-in worker behind its door: hand-written batches, then everything that was recorded."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftproof.reference.vocabulary import (
    IDLE_ID,
    PADDING_ID_BASE,
    SEAMS,
    Batch,
    BatchError,
    Collaborators,
    Config,
    ConfigError,
    Mode,
    StepResult,
    WorkerState,
)
from standin.door import make
from standin.harness import CONFIG, Anchor, Chunk, Harness, InjectedFault, batch, frames, step

RECORDINGS = sorted((Path(__file__).parents[1] / "data" / "recordings").glob("*.jsonl"))


def lists(result: StepResult) -> list[list[Any]]:
    names = ("new_tokens", "new_tokens_lens", "next_draft_tokens", "next_new_tokens")
    return [getattr(result, name).tolist() for name in names]


def test_chunks_of_one_prompt_append() -> None:
    """If this fails, a prompt that comes in chunks loses or misplaces hidden rows."""
    worker = Harness().make()
    step(worker, batch(3, contexts=[(5, 1, 0, 3)]))
    step(worker, batch(3, contexts=[(5, 1, 3, 2)]))
    state = worker.state()
    assert frames(state, 0) == {p + 1: (1, p) for p in range(5)}
    assert (state.ctx_len[0], state.valid_len[0], state.initialized[0]) == (5, 5, True)
    assert (state.slots, state.free_slots) == ({5: 0}, [1, 2, 3])


def test_an_imported_request_starts_at_its_input_position() -> None:
    """If this fails, a request whose prompt ran elsewhere is anchored in the wrong place."""
    worker = Harness().make()
    step(worker, batch(3, generations=[(7, 1, 4016), (9, 2, 87)], counts=[1, 1]))
    state = worker.state()
    assert (state.ctx_len[:2], state.valid_len[:2]) == ([4017, 88], [1, 1])
    step(worker, batch(3, generations=[(7, 1, 4017), (9, 2, 88)], counts=[2, 3]))
    state = worker.state()
    assert (state.ctx_len[:2], state.valid_len[:2]) == ([4019, 91], [3, 4])
    assert frames(state, 1) == {88: (2, 87), 89: (2, 88), 90: (2, 89), 91: (2, 90)}


def test_accepted_tokens_and_the_next_block() -> None:
    """If this fails, the door mixes up rows, columns or counts of a mixed batch's outputs."""
    harness = Harness()
    worker = harness.make()
    step(worker, batch(2, contexts=[(5, 1, 0, 2)]))
    result = step(worker, batch(2, [(6, 2, 0, 4)], [(5, 1, 2), (8, 3, 70)], counts=[2, 3], step=1))
    tokens, counts, drafts, following = lists(result)
    assert counts == [1, 2, 3]
    assert [row[:n] for row, n in zip(tokens, counts, strict=True)] == [[2], [1, 2], [1, 1, 2]]
    assert drafts == [[0, 0], [10, 11], [10, 11]]
    assert following == [[2, 0, 0], [2, 10, 11], [2, 10, 11]]
    assert result.window_source == "uniform"
    assert harness.drafted == [
        ([(1, 0), (1, 1), (1, 2), (1, 3)], 4, 2),
        ([(3, 70), (3, 71), (3, 72)], 73, 2),
    ]
    assert worker.state().batch_to_slot[:3] == [4, 0, 1]


def test_a_zero_draft_step_keeps_the_window_following() -> None:
    """If this fails, the window falls behind the target while speculation is off."""
    harness = Harness()
    worker = harness.make()
    result = step(worker, batch(0, [(6, 2, 0, 2)], [(5, 1, 40)]))
    assert lists(result) == [[[2], [2]], [1, 1], [[], []], [[2], [2]]]
    step(worker, batch(0, generations=[(6, 2, 2), (5, 1, 41)]))
    state = worker.state()
    assert frames(state, 0) == {41: (1, 40), 42: (1, 41)}
    assert frames(state, 1) == {1: (2, 0), 2: (2, 1), 3: (2, 2)}
    assert harness.drafted == []


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_window_shorter_than_the_block_keeps_the_newest(size: int) -> None:
    """If this fails, a small window stores an older accepted row over a newer one."""
    worker = Harness().make(replace(CONFIG, window_size=size))
    step(worker, batch(3, contexts=[(5, 1, 0, 6)]))
    step(worker, batch(3, generations=[(5, 1, 6)], counts=[4]))
    assert frames(worker.state(), 0) == {f: (1, f - 1) for f in range(11 - size, 11)}


def test_padding_and_idle_rows_stay_on_scratch() -> None:
    """If this fails, rows that stand for nobody take slots, or the scratch row grows for ever."""
    worker = Harness().make()
    padding = (PADDING_ID_BASE - 3, 0, 3)
    for n in range(5):
        rows = [(5, 1, 40 + 4 * n), (IDLE_ID, 0, 0), padding, padding]
        step(worker, batch(3, generations=rows, counts=[4, 4, 4, 4]))
    state = worker.state()
    assert (state.slots, state.batch_to_slot) == ({5: 0}, [0, 4, 4, 4])
    assert state.ctx_len[4] <= 4
    assert state.valid_len[4] <= 4
    assert frames(state, 0) == {f: (1, f - 1) for f in range(53, 61)}


@pytest.mark.parametrize("fails_at", [None, *SEAMS])
def test_a_warm_up_leaves_nothing_behind(fails_at: str | None) -> None:
    """If this fails, a warm-up's made-up rows reach a real request, at once or after an error."""
    harness = Harness()
    worker = harness.make(replace(CONFIG, max_num_requests=3))
    step(worker, batch(2, contexts=[(5, 1, 0, 4), (6, 2, 0, 2)]))
    before = worker.state()
    harness.fails_at = fails_at
    warm_up = batch(3, [(8, 4, 0, 6)], [(5, 1, 4), (9, 5, 30)], counts=[3, 2], mode="warmup")
    if fails_at is None:
        step(worker, warm_up)
    else:
        with pytest.raises(InjectedFault):
            step(worker, warm_up)
    assert worker.state() == before


def test_a_returning_id_never_sees_its_earlier_life() -> None:
    """If this fails, a request reads the window of another that had the same id (row 11)."""
    worker = Harness().make(replace(CONFIG, max_num_requests=2))
    step(worker, batch(3, contexts=[(5, 1, 0, 6)]))
    step(worker, batch(3, contexts=[(5, 2, 2, 2)]))  # a prefix of two tokens was reused
    state = worker.state()
    assert (state.slots, state.free_slots) == ({5: 1}, [0])
    assert frames(state, 1) == {3: (2, 2), 4: (2, 3)}
    step(worker, batch(3, generations=[(5, 3, 90)]))
    assert frames(worker.state(), 0) == {91: (3, 90)}


def test_a_recompute_moves_to_another_slot() -> None:
    """If this fails, a request that starts over keeps rows of its first attempt."""
    worker = Harness().make(replace(CONFIG, max_num_requests=2))
    step(worker, batch(3, contexts=[(5, 1, 0, 6)]))
    step(worker, batch(3, contexts=[(5, 1, 0, 2)]))
    state = worker.state()
    assert (state.slots, state.free_slots, state.batch_to_slot[0]) == ({5: 1}, [0], 2)
    assert frames(state, 1) == {1: (1, 0), 2: (1, 1)}


def test_departed_requests_free_their_slots_in_order() -> None:
    """If this fails, slots are handed out in another order than the specification's."""
    worker = Harness().make()
    step(worker, batch(3, contexts=[(5, 1, 0, 1), (6, 2, 0, 1), (7, 3, 0, 1)]))
    step(worker, batch(3, contexts=[(8, 4, 0, 1)], generations=[(6, 2, 1)]))
    state = worker.state()
    assert state.slots is not None
    assert (list(state.slots.items()), state.free_slots) == ([(6, 1), (8, 3)], [0, 2])


@pytest.mark.parametrize(
    "generations", [[(i, i, 9) for i in range(1, 6)], [(3, 1, 9), (3, 2, 9)]], ids=["rows", "twice"]
)
def test_an_impossible_batch_changes_nothing(generations: list[Anchor]) -> None:
    """If this fails, a batch that is refused has already freed or taken slots."""
    worker = Harness().make()
    step(worker, batch(3, contexts=[(8, 9, 0, 3)]))
    before = worker.state()
    with pytest.raises(BatchError):
        worker.prepare(batch(3, generations=generations))
    assert worker.state() == before


def test_missing_hidden_rows_are_an_error_before_any_change() -> None:
    """If this fails, a step without captured rows leaves windows that name the wrong positions."""
    worker = Harness().make()
    given = replace(batch(3, generations=[(5, 1, 40)]), hidden=None)
    worker.prepare(given)
    before = worker.state()
    with pytest.raises(BatchError, match="no hidden states"):
        worker.forward(given)
    assert worker.state() == before


@pytest.mark.parametrize("r", [0, 3])
@pytest.mark.parametrize("contexts", [[], [(5, 1, 0, 2)]], ids=["no contexts", "contexts"])
@pytest.mark.parametrize("generations", [[], [(6, 2, 9)]], ids=["no generations", "generations"])
def test_every_forward_passes_every_seam(
    r: int, contexts: list[Chunk], generations: list[Anchor]
) -> None:
    """If this fails, a fault that the harness planned for this step never happens."""
    harness = Harness()
    step(harness.make(), batch(r, contexts, generations))
    assert harness.seams == list(SEAMS)


def test_what_the_worker_cannot_do_is_refused() -> None:
    """If this fails, a configuration that the stand-in does not implement looks checked."""
    lent = Collaborators(Harness().at, lambda *_: ([], []))
    for config in (
        replace(CONFIG, use_rejection_sampling=True),
        replace(CONFIG, confidence_scheduling=True),
    ):
        with pytest.raises(ConfigError, match="neither"):
            make(config, "cpu", lent)
    with pytest.raises(ConfigError, match=r"no options, but got \['speed'\]"):
        make(CONFIG, "cpu", lent, speed=1)


def recorded_batch(index: int, line: dict[str, Any]) -> Batch:
    """The batch of one recorded step; a recorded warm-up is a plain prepare() without forward."""
    r = line["draft_len"]
    contexts = [
        (row["id"], row["incarnation"], row["first_position"], row["length"])
        for row in line["contexts"]
    ]
    real = [(row["id"], row["incarnation"], row["position"]) for row in line["generations"]]
    padding = [(PADDING_ID_BASE - r, 0, r)] * line["num_padding"]
    counts = [row["num_accepted"] or 1 for row in line["generations"]]
    mode: Mode = "replay" if line["mode"] == "replay" else "eager"
    return batch(r, contexts, [*real, *padding], counts, step=index, mode=mode)


def shown(state: WorkerState, slot: int) -> dict[str, Any]:
    """One slot in the words of a recording."""
    return {
        "slot": slot,
        "ctx_len": state.ctx_len[slot],
        "valid_len": state.valid_len[slot],
        "initialized": state.initialized[slot],
        "frames": {str(frame): list(source) for frame, source in frames(state, slot).items()},
    }


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_recording_of_the_real_worker(path: Path) -> None:
    """If this fails, the stand-in does not do what the worker it stands for was seen to do."""
    header, *lines = map(json.loads, path.read_text("utf-8").splitlines())
    names = ("block_size", "window_size", "num_stages", "max_num_requests")
    harness = Harness()
    worker = harness.make(Config(*[header["config"][name] for name in names]))
    for index, line in enumerate(lines):
        given, rows = recorded_batch(index, line), line["state"]["rows"]
        harness.fails_at = "draft" if line["failed"] else None
        if line["mode"] == "warmup":
            worker.prepare(given)
        else:
            with pytest.raises(InjectedFault) if line["failed"] else nullcontext():
                step(worker, given)
        state = worker.state()
        assert state.slots == {int(i): row["slot"] for i, row in rows.items()}
        assert state.free_slots == line["state"]["free"]
        if not line["failed"]:
            assert {str(i): shown(state, slot) for i, slot in state.slots.items()} == rows


def test_the_recordings_are_all_there() -> None:
    """If this fails, the test above passes because there is nothing to compare with."""
    assert len(RECORDINGS) == 192
