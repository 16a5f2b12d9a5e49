"""The engine: how prompts get in, and who comes back after being away."""

from batches import small
from schedules import (
    batches,
    contexts,
    delivered,
    departed,
    draft_lens,
    generations,
    ids,
    output,
    play,
    reserved,
)

from draftproof.sim.events import Pause, Recompute, Step, Submit


def test_a_prompt_is_fed_in_chunks_and_answers_only_once() -> None:
    """If this fails, chunks overlap or leave gaps, or a half-read prompt emits a token."""
    run = play(small(), Submit(0, prompt=7, limit=9), *[Step(chunk=3)] * 4)
    first, second, third, fourth = batches(run)
    assert [contexts(batch) for batch in (first, second, third)] == [
        [(1, 0, 3)],
        [(1, 3, 3)],
        [(1, 6, 1)],
    ]
    assert (contexts(fourth), generations(fourth)) == ([], [(1, 7, 3)])
    assert delivered(run) == [(2, 1, 1), (3, 1, 1)]


def test_a_chunk_of_0_is_the_whole_prompt() -> None:
    """If this fails, whole prompts are never fed at once."""
    run = play(small(), Submit(0, prompt=7, limit=9), Step())
    assert contexts(batches(run)[0]) == [(1, 0, 7)]


def test_a_reused_prefix_is_not_fed_but_the_last_token_always_is() -> None:
    """If this fails, a cached prefix is computed again, or a request has no row to answer from."""
    run = play(small(), Submit(0, prompt=6, reused=4, limit=9), Step())
    assert contexts(batches(run)[0]) == [(1, 4, 2)]
    run = play(small(), Submit(0, prompt=6, reused=6, limit=9), Step())
    assert contexts(batches(run)[0]) == [(1, 5, 1)]


def test_an_imported_request_starts_as_a_generation() -> None:
    """If this fails, a prompt that ran on another server is run again, or anchored wrongly."""
    run = play(small(), Submit(0, prompt=5, imported=True, limit=9), Step(), Step(accepts=(2,)))
    first, second = batches(run)
    assert (contexts(first), generations(first)) == ([], [(1, 4, 0)])
    assert first.drafts.tolist() == [0, 0, 0]
    assert generations(second) == [(1, 5, 3)]
    assert delivered(run) == [(0, 1, 1), (1, 1, 3)]


def test_contexts_come_before_generations() -> None:
    """If this fails, mixed batches are packed in an order that no worker accepts."""
    run = play(
        small(),
        Submit(0, prompt=2, limit=9),
        Step(),
        Submit(1, prompt=3, limit=9),
        Step(),
        Submit(2, prompt=4, limit=9),
        Step(accepts=(1,)),
    )
    assert ids(run) == [[1], [2, 1], [3, 1, 2]]
    mixed = batches(run)[2]
    assert contexts(mixed) == [(3, 0, 4)]
    assert generations(mixed) == [(1, 3, 3), (2, 3, 3)]
    assert mixed.drafts[3:].tolist() == [0, 0, 0]  # a context proposes zeros
    assert len(mixed.hidden or ()) == 7 * (4 + 4 + 4)
    assert len(mixed.target_tokens) == 1 + 4 + 4
    assert delivered(run)[-3:] == [(2, 3, 1), (2, 1, 2), (2, 2, 2)]


def test_drafts_and_answers_are_packed_in_batch_order_even_when_it_turns() -> None:
    """If this fails, a request verifies the drafts of another one."""
    run = play(
        small(),
        *[Submit(i, prompt=2, limit=20) for i in range(3)],
        Step(),
        Step(),
        Step(rotate=1, accepts=(3, 2, 1)),
        Step(rotate=5),
    )
    assert ids(run)[1:] == [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    proposed = run.steps[1].result
    assert proposed is not None
    by_id = dict(zip([1, 2, 3], proposed.next_draft_tokens, strict=True))
    turned = batches(run)[2]
    assert turned.drafts.tolist() == [*by_id[2], *by_id[3], *by_id[1]]
    assert delivered(run)[-6:-3] == [(2, 2, 4), (2, 3, 3), (2, 1, 2)]


def test_the_token_budget_goes_to_generations_first_then_to_chunks_in_order() -> None:
    """If this fails, a step has more token rows than the worker's buffers."""
    config = small(max_num_tokens=12)
    run = play(
        config,
        Submit(0, prompt=1, limit=20),
        Step(),
        Submit(1, prompt=9, limit=20),
        Submit(2, prompt=9, limit=20),
        Step(),
        Step(),
    )
    assert contexts(batches(run)[1]) == [(2, 0, 7), (3, 0, 1)]  # 12 - 4 = 8, one left for the last
    assert contexts(batches(run)[2]) == [(2, 7, 2), (3, 1, 6)]


def test_at_most_s_requests_are_admitted_and_the_others_wait_in_order() -> None:
    """If this fails, a batch has more rows than slots, or somebody waits for ever."""
    run = play(
        small(max_num_requests=2),
        *[Submit(i, prompt=1, limit=1 + i // 3) for i in range(4)],
        *[Step()] * 4,
    )
    assert ids(run) == [[1, 2], [3, 4], [4], [0]]
    assert departed(run) == [(1, "finished"), (2, "finished"), (3, "finished"), (4, "finished")]
    slots = [[row.seq_slot for row in batch.rows] for batch in batches(run)]
    assert slots == [[0, 1], [0, 1], [1], [2]]


def test_a_paused_request_is_left_out_and_returns_with_placeholders() -> None:
    """If this fails, a pause loses a result, or old drafts are verified after it."""
    run = play(
        small(),
        Submit(0, prompt=2, limit=30),
        Submit(1, prompt=2, limit=30),
        Step(),
        Step(),
        Pause(0, steps=2),
        *[Step(accepts=(1,))] * 4,
    )
    assert ids(run) == [[1, 2], [1, 2], [2], [2], [1, 2], [1, 2]]
    assert (1, 1, 1) in delivered(run), "the result under way is still delivered"
    back, after = batches(run)[4], batches(run)[5]
    assert generations(back)[0] == (1, 3, 0)
    assert back.drafts[:3].tolist() == [0, 0, 0]
    assert generations(after)[0] == (1, 5, 3)  # accepts 1 of the placeholders, all the same


def test_a_pause_in_the_middle_of_a_prompt_goes_on_where_it_stopped() -> None:
    """If this fails, a half-read prompt is read twice or has a gap after a pause."""
    run = play(
        small(), Submit(0, prompt=5, limit=9), Step(chunk=2), Pause(0), Step(), Step(chunk=9)
    )
    assert [contexts(batch) for batch in batches(run)] == [[(1, 0, 2)], [], [(1, 2, 3)]]


def test_a_pause_before_admission_counts_from_admission() -> None:
    """If this fails, steps in which a request only waited count as its pause."""
    run = play(
        small(max_num_requests=1),
        Submit(0, prompt=1, limit=2),
        Submit(1, prompt=1, limit=9),
        Pause(1, steps=2),
        *[Step()] * 5,
    )
    assert ids(run) == [[1], [1], [0], [0], [2]]


def test_a_recompute_feeds_everything_again_and_emits_nothing_twice() -> None:
    """If this fails, tokens are lost or repeated when a request is computed again."""
    events = (Submit(0, prompt=3, limit=7), Step(), Step(), Step(accepts=(2,)))
    run = play(small(), *events, Recompute(0), Step(chunk=4), Step(chunk=4), Step())
    chunks = [contexts(batch) for batch in batches(run)[3:5]]
    assert chunks == [[(1, 0, 4)], [(1, 4, 4)]]  # 3 of the prompt and 1 + 1 + 3 tokens
    assert delivered(run) == [(0, 1, 1), (1, 1, 1), (2, 1, 3), (4, 1, 1), (5, 1, 1)]
    assert output(run, 1)[:5] == output(play(small(), *events), 1)
    assert generations(batches(run)[5]) == [(1, 8, 3)]


def test_a_recompute_of_nobody_or_of_a_waiting_request_is_skipped() -> None:
    """If this fails, an event without sense changes something."""
    config = small(max_num_requests=1)
    run = play(
        config, Submit(0, prompt=2, limit=9), Submit(1), Step(), Recompute(1), Recompute(7), Step()
    )
    assert ids(run) == [[1], [1]]
    assert generations(batches(run)[1]) == [(1, 2, 3)]


def test_reserved_rows_reach_the_furthest_write_and_shrink_back() -> None:
    """If this fails, a step writes target KV rows that nobody reserved."""
    run = play(
        small(),
        Submit(0, prompt=5, limit=30),
        Step(chunk=2),
        Step(),
        Step(),
        Step(draft_len=1, accepts=(1,)),
        Step(draft_len=0),
    )
    assert draft_lens(run) == [3, 3, 3, 1, 0]
    assert reserved(run) == [(2,), (5,), (9,), (8,), (9,)]
    assert [batch.rows[0].request_id for batch in batches(run)] == [1] * 5
