"""The engine: draft lengths, padding to captured sizes, verify windows, idle steps."""

import pytest
from batches import small
from schedules import batches, delivered, draft_lens, generations, ids, play

from draftproof.reference.vocabulary import IDLE_ID, PADDING_ID_BASE
from draftproof.sim.events import AnyEvent, Pause, Step, Submit, Warmup
from draftproof.sim.run import Run

RISING = ((1, 3), (2, 1), (4, 3))
"""Three drafts for one request, one for two, three again for three or four."""


def decoding(count: int) -> list[AnyEvent]:
    """So many requests that only decode."""
    return [Submit(i, prompt=2, limit=99, imported=True) for i in range(count)]


@pytest.mark.parametrize(("rows", "r"), [(1, 5), (2, 3), (4, 3), (5, 1), (8, 1), (9, 0)])
def test_the_draft_length_is_that_of_the_first_threshold_not_below_the_batch(
    rows: int, r: int
) -> None:
    """If this fails, the schedule is looked up from the wrong side, or its ends are wrong."""
    config = small(max_draft_len=5, max_num_requests=9, draft_len_schedule=((1, 5), (4, 3), (8, 1)))
    run = play(config, *decoding(rows), Step(draft_len=2))
    assert draft_lens(run) == [r]  # forced from outside: only without a schedule
    assert len(batches(run)[0].drafts) == rows * r


def test_the_lookup_counts_contexts_and_generations_but_nobody_who_is_paused() -> None:
    """If this fails, a mixed batch, or one that somebody left, gets the wrong length."""
    config = small(draft_len_schedule=((1, 3), (2, 2), (3, 1)))
    run = play(
        config,
        *decoding(2),
        Step(),
        Submit(2, prompt=4, limit=9),
        Step(),
        Pause(0),
        Step(),
    )
    assert ids(run) == [[1, 2], [3, 1, 2], [2, 3]]
    assert draft_lens(run) == [2, 1, 2]


@pytest.mark.parametrize(("forced", "r"), [(None, 3), (0, 0), (2, 2), (99, 3)])
def test_without_a_schedule_the_length_may_be_forced(forced: int | None, r: int) -> None:
    """If this fails, lengths never change without a schedule, or grow beyond the block."""
    run = play(small(), *decoding(1), Step(draft_len=forced))
    assert draft_lens(run) == [r]


def test_drafts_are_cut_or_filled_up_to_the_length_of_the_step_that_reads_them() -> None:
    """If this fails, a change of length misplaces drafts, or invents some."""
    run = play(
        small(),
        *decoding(1),
        Step(draft_len=1),
        Step(draft_len=3),
        Step(draft_len=2),
        Step(draft_len=0),
        Step(draft_len=2),
    )
    proposed = [expected.result.next_draft_tokens[0] for expected in run.steps if expected.result]
    one, three, two, none, _ = proposed
    assert [len(drafts) for drafts in proposed] == [1, 3, 2, 0, 2]
    assert [batch.drafts.tolist() for batch in batches(run)] == [
        [0],
        [*one, 0, 0],
        three[:2],
        none,
        [0, 0],
    ]
    assert [row.proposed for batch in batches(run) for row in batch.generations] == [0, 1, 2, 0, 0]
    assert two != none


def padded(run: Run) -> tuple[str, int, int, list[int]]:
    """Mode, draft length, size and ids of the padding rows of the last batch."""
    batch = batches(run)[-1]
    padding = [row.request_id for row in batch.generations if row.request_id > 2**60]
    return batch.mode, batch.draft_len, len(batch.generations), padding


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (1, ("replay", 3, 4, [PADDING_ID_BASE - 3] * 3)),  # past size 2, whose length is 1
        (2, ("replay", 1, 2, [])),
        (3, ("replay", 3, 4, [PADDING_ID_BASE - 3])),
        (4, ("replay", 3, 4, [])),
        (5, ("eager", 0, 5, [])),  # larger than every captured size
    ],
)
def test_padding_goes_to_the_smallest_captured_size_of_the_same_length(
    rows: int, expected: tuple[str, int, int, list[int]]
) -> None:
    """If this fails, a graph of another draft length is replayed where lengths rise again."""
    config = small(max_num_requests=5, draft_len_schedule=RISING, graph_batch_sizes=(2, 4))
    assert padded(play(config, *decoding(rows), Step(graph=True))) == expected


def test_the_largest_size_is_captured_at_full_length_whatever_the_schedule_says() -> None:
    """If this fails, the pair (largest size, K) is not used, or another that was not captured."""
    config = small(draft_len_schedule=((1, 3), (3, 1)), graph_batch_sizes=(2, 3))
    assert padded(play(config, *decoding(1), Step(graph=True)))[:3] == ("replay", 3, 3)
    assert padded(play(config, *decoding(2), Step(graph=True)))[:3] == ("replay", 1, 2)
    config = small(draft_len_schedule=((1, 3), (3, 1)), graph_batch_sizes=(1, 2))
    assert padded(play(config, *decoding(2), Step(graph=True)))[:3] == ("replay", 1, 2)
    assert padded(play(config, *decoding(3), Step(graph=True)))[:3] == ("eager", 1, 3)


def test_padding_rows_are_as_an_engine_makes_them_and_count_for_nothing() -> None:
    """If this fails, padding changes the length of the step, or is fed as a request."""
    config = small(draft_len_schedule=((1, 3), (3, 2)), graph_batch_sizes=(3,))
    run = play(config, *decoding(1), Step(graph=True, accepts=(0, 2, 3)))
    batch = batches(run)[0]
    assert (batch.mode, batch.draft_len) == ("replay", 3)
    assert generations(batch) == [(1, 1, 0)] + [(PADDING_ID_BASE - 3, 3, 0)] * 2
    assert [row.seq_slot for row in batch.generations] == [0, 3, 3]
    assert [row.incarnation for row in batch.generations] == [1, 0, 0]
    assert batch.drafts.tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1]
    assert delivered(run) == [(0, 1, 1)]


@pytest.mark.parametrize("graph", [False, True])
def test_a_batch_with_contexts_is_never_padded(graph: bool) -> None:
    """If this fails, a prompt is run in a graph that has no room for it."""
    config = small(graph_batch_sizes=(3,))
    run = play(config, *decoding(1), Submit(1, prompt=2), Step(graph=graph))
    assert (batches(run)[0].mode, len(batches(run)[0].generations)) == ("eager", 1)


def test_an_idle_step_is_one_dummy_row_that_counts_in_the_lookup() -> None:
    """If this fails, an idle rank stops taking part, or drafts at the wrong length."""
    config = small(draft_len_schedule=((1, 3), (2, 0)), graph_batch_sizes=(1, 3))
    run = play(config, Step(), *decoding(1), Pause(0), Step(graph=True), Step())
    assert ids(run) == [[IDLE_ID], [IDLE_ID], [1]]
    assert draft_lens(run) == [3, 3, 3]
    assert [batch.mode for batch in batches(run)] == ["eager", "replay", "eager"]
    dummy = batches(run)[1].generations[0]
    assert (dummy.position, dummy.seq_slot, dummy.proposed, dummy.incarnation) == (3, 3, 0, 0)
    assert batches(run)[1].drafts.tolist() == [1, 1, 1]
    assert delivered(run) == [(2, 1, 1)]


def test_verify_windows_go_round_the_requests_and_padding_gets_1() -> None:
    """If this fails, ragged steps do not have the windows that the schedule says."""
    config = small(max_num_requests=4, confidence_scheduling=True, graph_batch_sizes=(4,))
    run = play(
        config, *decoding(3), Step(windows=(2, 9), graph=True, accepts=(3,)), Step(windows=())
    )
    ragged, uniform = batches(run)
    assert ragged.verify_lens == (2, 4, 2, 1)
    assert len(ragged.target_tokens) == 9
    assert len(ragged.hidden or ()) == 7 * 9
    assert uniform.verify_lens is None
    assert [count for _, _, count in delivered(run)[:3]] == [2, 4, 2]


def test_without_confidence_scheduling_every_window_is_full() -> None:
    """If this fails, a worker that was told of no ragged steps gets one, as after shrinking."""
    run = play(small(), *decoding(2), Step(windows=(1, 2)))
    assert batches(run)[0].verify_lens is None


@pytest.mark.parametrize("r", [1, 2])
def test_a_step_with_less_than_a_whole_block_is_never_ragged(r: int) -> None:
    """If this fails, a ragged step has another draft length than K, which section 14 rules out."""
    run = play(small(confidence_scheduling=True), *decoding(2), Step(windows=(1, 2), draft_len=r))
    assert batches(run)[0].verify_lens is None


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (Warmup(rows=1, capture=True), ("capture", 3, 4)),  # the length of 1, at a size that has it
        (Warmup(rows=2, capture=True), ("capture", 1, 2)),
        (Warmup(rows=3, capture=True, context=True), ("capture", 3, 4)),
        (Warmup(rows=2, capture=True, draft_len=3), ("capture", 3, 4)),
        (Warmup(rows=2, capture=True, draft_len=2), ("warmup", 2, 2)),
        (Warmup(rows=5, capture=True), ("warmup", 0, 5)),
        (Warmup(rows=2), ("warmup", 3, 2)),
    ],
)
def test_a_graph_is_captured_at_a_size_and_length_that_it_will_be_replayed_at(
    event: Warmup, expected: tuple[str, int, int]
) -> None:
    """If this fails, graphs are captured that nobody replays, or with prompts in them."""
    config = small(max_num_requests=5, draft_len_schedule=RISING, graph_batch_sizes=(2, 4))
    batch = batches(play(config, event))[0]
    assert (batch.mode, batch.draft_len, len(batch.generations)) == expected
    assert batch.contexts == ()


def test_a_warm_up_may_be_sampled() -> None:
    """If this fails, the sampled path is never warmed up."""
    run = play(small(use_rejection_sampling=True), Warmup(context=True), Warmup(sampled=True))
    greedy, sampled = batches(run)
    assert (greedy.all_greedy, greedy.target_probs) == (True, None)
    assert not sampled.all_greedy
    assert sampled.target_probs is not None


def test_a_step_without_drafts_is_never_ragged() -> None:
    """If this fails, windows are published for a step in which nothing was drafted."""
    run = play(small(confidence_scheduling=True), *decoding(2), Step(windows=(1, 2), draft_len=0))
    assert batches(run)[0].verify_lens is None
