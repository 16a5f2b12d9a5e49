"""The worker behind its door, on schedules written by hand."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest

from draftproof.gpu.worker import DSparkWorker
from draftproof.reference.vocabulary import IDLE_ID, SEAMS, Batch, StepResult

Build = Callable[..., Batch]
Start = Callable[..., DSparkWorker]


def run(worker: DSparkWorker, batch: Batch) -> StepResult:
    worker.prepare(batch)
    return worker.forward(batch)


def listed(result: StepResult) -> dict[str, Any]:
    return {k: v.tolist() if hasattr(v, "tolist") else v for k, v in asdict(result).items()}


def everything(worker: DSparkWorker) -> str:
    """The whole state as text: NaN equals NaN there."""
    state = worker.state()
    probs = None if state.draft_probs is None else state.draft_probs.tolist()
    return repr(replace(state, draft_probs=probs))


def sampled(build: Build, draft_len: int, generations: list[Any], **fields: Any) -> Batch:
    """A batch of sampled generations, K = 3, V = 8; q is one half on 0 and on 1."""
    count = len(generations)
    batch = build(
        draft_len,
        generations=generations,
        all_greedy=False,
        target_probs=array("f", [0.5, 0.5, 0, 0, 0, 0, 0, 0] * (count * (1 + draft_len))),
        accept_uniforms=array("f", [0.25] * (count * draft_len)),
        recover_uniforms=array("f", [0.25] * count),
        draft_uniforms=array("f", [0.75] * (count * 3)),
        **fields,
    )
    rows = tuple(replace(row, greedy=False, proposed=0) for row in batch.generations)
    return replace(batch, generations=rows)


# ---- steps


def test_a_mixed_step(build: Build, worker: Start) -> None:
    """If this fails, contexts and generations of one batch are mixed up."""
    ours = worker()
    run(ours, build(2, contexts=[(7, 1, 0, 3)]))
    tokens = array("q", [9, 0, 1, 1])
    batch = build(2, [(8, 2, 0, 2)], [(7, 1, 3, 2)], step=1, target_tokens=tokens)
    result = listed(run(ours, batch))
    assert result["new_tokens"] == [[9, 0, 0], [0, 1, 0]]
    assert result["new_tokens_lens"] == [1, 2]
    assert result["next_draft_tokens"][0] == [0, 0]
    assert result["next_new_tokens"] == [[9, 0, 0], [1, *result["next_draft_tokens"][1]]]
    state = ours.state()
    assert (state.slots, state.free_slots, state.batch_to_slot) == ({7: 0, 8: 1}, [2, 3], [4, 0])
    assert (state.ctx_len[:2], state.valid_len[:2]) == ([5, 2], [5, 2])
    positions = [[row[2] for row in state.windows[slot][1]] for slot in (0, 1)]
    assert positions == [[0, 1, 2, 3, 4], [0, 1]]
    assert [row[4] for row in state.windows[0][0]] == [0, 0, 0, 1, 1]


def test_a_step_without_drafts_advances_and_proposes_nothing(build: Build, worker: Start) -> None:
    """If this fails, windows fall behind the target during zero-draft steps."""
    ours = worker(use_rejection_sampling=True)
    run(ours, build(3, generations=[(7, 1, 3, 2)]))
    before = ours.state()
    result = listed(run(ours, build(0, generations=[(7, 1, 5, 1)], step=1)))
    assert (result["new_tokens"], result["next_draft_tokens"]) == ([[1]], [[]])
    assert (result["next_new_tokens"], result["window_source"]) == ([[1]], "uniform")
    after = ours.state()
    assert (after.ctx_len[0], after.valid_len[0], after.draft_seq) == (6, 3, 2)
    assert after.confidence_logits == before.confidence_logits
    assert after.confidence_stamp == before.confidence_stamp
    assert after.draft_probs[0].equal(before.draft_probs[0])


def test_confidence_rows_are_stamped_and_neutral_for_a_new_owner(
    build: Build, worker: Start
) -> None:
    """If this fails, a request is ranked by another's confidences."""
    ours = worker(max_num_requests=1)
    run(ours, build(3, generations=[(7, 1, 3, 2)]))
    logits, stamp = ours.state().confidence_logits, ours.state().confidence_stamp
    assert logits[0] != [30.0] * 3
    assert (logits[2], stamp) == ([30.0] * 3, [1, 0, 0])
    run(ours, build(3, contexts=[(8, 2, 0, 2)], step=1))
    assert (ours.state().confidence_logits[0], ours.state().confidence_stamp[0]) == ([30.0] * 3, 1)


def test_padding_and_idle_rows_live_in_the_scratch_row(build: Build, worker: Start) -> None:
    """If this fails, a dummy row takes or overwrites a slot, or scratch grows for ever."""
    ours, alone = worker(graph_batch_sizes=(4,)), worker()
    for step in range(5):
        position = 3 + 4 * step
        padded = run(ours, build(3, generations=[(7, 1, position, 4)], padding=3, step=step))
        single = run(alone, build(3, generations=[(7, 1, position, 4)], step=step))
        assert padded.next_new_tokens[:1].equal(single.next_new_tokens)
        state, expected = ours.state(), alone.state()
        assert (state.windows, state.slots) == (expected.windows, {7: 0})
        assert state.batch_to_slot == [0, 4, 4, 4]
        assert max(state.ctx_len[4], state.valid_len[4]) <= 4
    run(ours, build(3, generations=[(IDLE_ID, 0, 3, 4)], step=5))
    assert (ours.state().slots, ours.state().batch_to_slot) == ({}, [4])


def test_an_empty_batch_retires_everybody(build: Build, worker: Start) -> None:
    """If this fails, a step without rows needs a special case."""
    ours = worker()
    run(ours, build(3, generations=[(7, 1, 3, 2)]))
    result = listed(run(ours, build(3)))
    assert [result[name] for name in ("new_tokens", "new_tokens_lens", "next_new_tokens")] == [
        []
    ] * 3
    assert (ours.state().slots, ours.state().free_slots) == ({}, [1, 2, 3, 0])
    assert ours.state().ctx_len[:4] == [0] * 4


def test_an_id_that_comes_back_at_once_sees_nothing_of_its_earlier_life(
    build: Build, worker: Start
) -> None:
    """If this fails, a reused id inherits window and counters."""
    ours = worker()
    run(ours, build(3, generations=[(7, 1, 3, 4)]))
    run(ours, build(3, generations=[(7, 2, 20, 1)], step=1))
    state = ours.state()
    assert (state.slots, state.free_slots) == ({7: 1}, [2, 3, 0])
    assert (state.ctx_len[1], state.valid_len[1]) == (21, 1)


def test_a_full_ragged_step_is_the_uniform_one(build: Build, worker: Start) -> None:
    """If this fails, the ragged path packs rows differently."""
    rows = [(7, 1, 3, 2), (8, 2, 5, 4)]
    ragged, uniform = worker(), worker()
    one = listed(run(ragged, build(3, [(9, 3, 0, 2)], rows, windows=(4, 4))))
    two = listed(run(uniform, build(3, [(9, 3, 0, 2)], rows)))
    assert (one.pop("window_source"), two.pop("window_source")) == ("snapshot", "uniform")
    assert one == two
    assert everything(ragged) == everything(uniform)


def test_a_ragged_step_reads_each_window_at_its_offset(build: Build, worker: Start) -> None:
    """If this fails, the rows of one request are stored for another."""
    ours = worker()
    batch = build(3, generations=[(7, 1, 3, 2), (8, 2, 5, 1), (9, 3, 7, 3)], windows=(2, 1, 4))
    result = run(ours, batch)
    assert result.window_source == "windows"
    assert result.new_tokens_lens.tolist() == [2, 1, 3]
    named = [[(row[0], row[2]) for row in stages[0]] for stages in ours.state().windows[:3]]
    assert named == [[(1, 3), (1, 4)], [(2, 5)], [(3, 7), (3, 8), (3, 9)]]


@pytest.mark.parametrize("width", [1, 2, 3, 8])
def test_poison_never_reaches_a_result(build: Build, worker: Start, width: int) -> None:
    """If this fails, drafts depend on memory that nobody wrote."""
    steps = [build(3, generations=[(7, 1, 3 + 4 * i, 4)], step=i) for i in range(4)]
    results = [
        [listed(run(ours, batch)) for batch in steps]
        for ours in (worker(window_size=width), worker(window_size=width, poison=False))
    ]
    assert results[0] == results[1]


def test_nothing_of_the_batchs_arrays_is_kept(build: Build, worker: Start) -> None:
    """If this fails, a result changes when the harness overwrites the step's arrays."""
    ours, batch = worker(), build(3, [(8, 2, 0, 3)], [(7, 1, 3, 2)])
    result = run(ours, batch)
    before, state = listed(result), everything(ours)
    for buffer in (batch.drafts, batch.target_tokens):
        buffer[:] = array("q", [-1] * len(buffer))
    assert batch.hidden is not None
    batch.hidden[:] = array("b", [-1] * len(batch.hidden))
    assert (listed(result), everything(ours)) == (before, state)


def test_a_shown_state_does_not_change_later(build: Build, worker: Start) -> None:
    """If this fails, a state that the harness keeps is a view of the next one."""
    ours = worker(use_rejection_sampling=True)
    run(ours, build(3, generations=[(7, 1, 3, 2)]))
    kept, text = ours.state(), everything(ours)
    run(ours, build(3, generations=[(7, 1, 5, 4)], step=1))
    assert repr(replace(kept, draft_probs=kept.draft_probs.tolist())) == text


# ---- rejection sampling


def test_draft_probabilities_are_published_by_sequence_slot(build: Build, worker: Start) -> None:
    """If this fails, the next step tests drafts against another request's probabilities."""
    ours = worker(use_rejection_sampling=True, vocab_size=8)
    tokens = array("q", [5, 0, 1, 1])
    result = run(ours, build(2, [(8, 2, 0, 3)], [(7, 1, 3, 2)], target_tokens=tokens))
    probs = ours.state().draft_probs
    assert probs[0].tolist() == [[1.0, 0, 0, 0, 0, 0, 0, 0]] * 3
    assert probs[1, :2].argmax(1).tolist() == result.next_draft_tokens[1].tolist()
    assert probs[1].sum(1).tolist() == [1, 1, 1]
    assert probs[2:].isnan().all()


def test_a_sampled_step_then_a_test_of_its_drafts(build: Build, worker: Start) -> None:
    """If this fails, sampled drafts and their probabilities do not belong together."""
    ours = worker(use_rejection_sampling=True, vocab_size=8)
    first = run(ours, sampled(build, 2, [(7, 1, 3, 1)]))
    # Placeholders have a one-hot p of 0: 1/4 < 1/2 accepts both; the bonus is token 0 at u = 1/4.
    assert first.new_tokens.tolist() == [[0, 0, 0]]
    probs = ours.state().draft_probs[0]
    assert sorted(probs[0].tolist()) == [0, 0, 0, 0, 0.125, 0.125, 0.25, 0.5]
    assert (probs.gather(1, first.next_draft_tokens.view(2, 1)) > 0).all()
    drafts = array("q", first.next_draft_tokens[0].tolist())
    batch = sampled(build, 2, [(7, 1, 6, 1)], step=1, drafts=drafts)
    rows = tuple(replace(row, proposed=2) for row in batch.generations)
    second = run(ours, replace(batch, generations=rows))
    draft = drafts[0]
    accepted = draft < 2 and 0.25 * probs[0, draft] < 0.5
    assert (second.new_tokens_lens.item() > 1) == accepted


def test_a_step_without_drafts_draws_from_q(build: Build, worker: Start) -> None:
    """If this fails, a zero-draft step takes the target's token where q should decide."""
    ours = worker(use_rejection_sampling=True, vocab_size=8)
    batch = sampled(build, 0, [(7, 1, 3, 1)])
    assert run(ours, batch).new_tokens.tolist() == [[0]]
    assert ours.state().draft_probs.isnan().all()


# ---- warm-up, failure, graph capture


@pytest.mark.parametrize("seam", [None, *SEAMS])
@pytest.mark.parametrize("mode", ["warmup", "capture"])
def test_a_warm_up_leaves_no_trace(
    build: Build, worker: Start, seam: str | None, mode: str
) -> None:
    """If this fails, a warm-up between two steps changes what follows, or leaks when it fails."""
    armed = False

    def at(name: str) -> None:
        if armed and name == seam:
            raise ZeroDivisionError

    ours = worker(at, use_rejection_sampling=True)
    run(ours, build(3, [(8, 2, 0, 3)], [(7, 1, 3, 2)]))
    before, armed = everything(ours), True
    contexts = [(8, 2, 0, 2), (10, 5, 0, 12)]
    batch = build(3, contexts, [(7, 1, 5, 4), (11, 6, 9, 2)], step=1, mode=mode)
    ours.prepare(batch)
    if seam is None:
        assert ours.forward(batch).new_tokens.shape == (4, 4)
    else:
        with pytest.raises(ZeroDivisionError):
            ours.forward(batch)
    assert everything(ours) == before


def test_a_failed_step_is_forgotten_by_the_next_prepare(build: Build, worker: Start) -> None:
    """If this fails, a request admitted after a failure sees the failed one's window."""
    failing = True

    def at(seam: str) -> None:
        if failing and seam == "publish":
            raise ZeroDivisionError

    ours, batch = worker(at, max_num_requests=2), build(3, [(8, 2, 0, 3)], [(7, 1, 3, 4)])
    ours.prepare(batch)
    with pytest.raises(ZeroDivisionError):
        ours.forward(batch)
    assert ours.state().slots == {7: 0, 8: 1}
    failing = False
    fresh = worker(max_num_requests=2)
    run(fresh, build(3))
    later = build(3, contexts=[(9, 3, 0, 3)], step=1)
    assert listed(run(ours, later)) == listed(run(fresh, later))
    assert (ours.state().windows, ours.state().ctx_len) == (
        fresh.state().windows,
        fresh.state().ctx_len,
    )
