"""The engine: how requests end, what comes too late, failing steps and warm-ups."""

import pytest
from batches import small
from schedules import batches, contexts, delivered, departed, generations, ids, output, play

from draftproof.reference.vocabulary import SEAMS
from draftproof.sim.events import AnyEvent, Cancel, Pause, Recompute, Step, Submit, Warmup
from draftproof.sim.journal import Asked

MANY = small(vocab_size=1000)
"""So many tokens that none comes twice in the run below."""

LIVELY: tuple[AnyEvent, ...] = (Step(), Step(), Step(accepts=(3,)), Step(accepts=(3,)), Step())
"""One token, another one, then twice four, then one."""


def emitted(limit: int, stop: int | None = None) -> list[int]:
    return output(play(MANY, Submit(0, prompt=2, limit=limit, stop=stop), *LIVELY), 1)


@pytest.mark.parametrize("limit", range(1, 11))
def test_a_limit_cuts_an_accepted_run(limit: int) -> None:
    """If this fails, a request emits more tokens than it asked for, or loses some."""
    run = play(MANY, Submit(0, prompt=2, limit=limit), *LIVELY)
    assert output(run, 1) == emitted(99)[:limit]
    assert departed(run) == [(1, "finished")]
    steps = {1: 1, 2: 2}.get(limit, 3 if limit <= 6 else 4)
    assert ids(run) == [[1]] * steps + [[0]] * (5 - steps)


@pytest.mark.parametrize("index", range(10))
def test_a_stop_token_cuts_an_accepted_run_and_is_emitted(index: int) -> None:
    """If this fails, tokens behind a stop token reach the client, or the stop token does not."""
    tokens = emitted(99)
    assert len(set(tokens)) == len(tokens) == 11, "each place has a token that comes only there"
    run = play(MANY, Submit(0, prompt=2, limit=99, stop=tokens[index]), *LIVELY)
    assert output(run, 1) == tokens[: index + 1]
    assert departed(run) == [(1, "finished")]


def test_whichever_comes_first_ends_the_request() -> None:
    """If this fails, a limit hides a stop token before it, or the other way round."""
    tokens = emitted(99)
    assert emitted(limit=5, stop=tokens[3]) == tokens[:4]
    assert emitted(limit=5, stop=tokens[4]) == tokens[:5]
    assert emitted(limit=5, stop=tokens[5]) == tokens[:5]


def test_a_limit_of_one_ends_with_the_prompt() -> None:
    """If this fails, a request that asked for one token is decoded further."""
    run = play(small(), Submit(0, prompt=5, limit=1), Step(chunk=4), Step(chunk=4), Step())
    assert ids(run) == [[1], [1], [0]]
    assert generations(batches(run)[2]) == [(0, 3, 0)]
    assert delivered(run) == [(1, 1, 1)]


def test_the_last_result_is_delivered_when_the_schedule_ends() -> None:
    """If this fails, the last step of every run goes unchecked by the journal's oracles."""
    assert delivered(play(small(), Submit(0, limit=9), Step())) == [(0, 1, 1)]


def test_a_cancel_while_a_result_is_under_way_drops_it() -> None:
    """If this fails, a client that left is still given tokens."""
    run = play(
        small(), Submit(0, prompt=2, limit=9), Submit(1, prompt=2, limit=9), Step(), Cancel(0)
    )
    assert delivered(run) == [(0, 2, 1)]
    assert departed(run) == [(1, "cancelled")]


def test_a_cancel_before_admission_keeps_the_request_out() -> None:
    """If this fails, somebody who left while waiting is run."""
    config = small(max_num_requests=1)
    run = play(
        config, Submit(0, limit=2), Submit(1), Submit(2), Cancel(1), Cancel(9), *[Step()] * 3
    )
    assert ids(run) == [[1], [1], [3]]
    assert departed(run)[0] == (2, "cancelled")


@pytest.mark.parametrize("imported", [False, True])
def test_an_id_may_come_back_in_the_very_next_batch(imported: bool) -> None:
    """If this fails, a worker is never shown a new request under an id it still knows; and the
    late result of the earlier life must not reach the new one."""
    run = play(
        small(),
        Submit(0, prompt=4, limit=9),
        Step(),
        Step(accepts=(3,)),
        Cancel(0),
        Submit(1, prompt=3, limit=9, same_id=True, imported=imported),
        Step(),
        Step(),
    )
    assert ids(run) == [[1]] * 4
    assert [batch.rows[0].incarnation for batch in batches(run)] == [1, 1, 2, 2]
    if imported:
        assert generations(batches(run)[2]) == [(1, 2, 0)]
    else:
        assert contexts(batches(run)[2]) == [(1, 0, 3)]
    assert delivered(run) == [(0, 1, 1), (2, 2, 1), (3, 2, 1)]


def test_an_id_that_is_in_use_is_not_given_twice() -> None:
    """If this fails, two live requests share an id."""
    run = play(
        small(),
        Submit(0, limit=9),
        Cancel(0),
        Submit(1, limit=9, same_id=True),
        Submit(2, limit=9, same_id=True),
        Step(),
    )
    assert ids(run) == [[1, 3]]


def test_same_id_with_nobody_gone_is_a_new_id() -> None:
    """If this fails, the first request has no id."""
    assert ids(play(small(), Submit(4, same_id=True), Step())) == [[5]]


@pytest.mark.parametrize("seam", SEAMS)
def test_a_failing_step_fails_everybody_admitted_and_nobody_who_waits(seam: str) -> None:
    """If this fails, tokens of a failed step are delivered, or the engine goes on with the dead."""
    run = play(
        small(max_num_requests=2),
        *[Submit(i, prompt=2, limit=9) for i in range(3)],
        Step(),
        Pause(1),
        Step(fault=seam),
        Step(),
        Step(),
    )
    assert run.steps[1].result is None
    assert departed(run) == [(1, "failed"), (2, "failed")]  # the paused one is admitted as well
    assert ids(run) == [[1, 2], [1], [3], [3]]
    assert delivered(run) == [(0, 1, 1), (0, 2, 1), (2, 3, 1), (3, 3, 1)]


def test_an_idle_step_may_fail_too() -> None:
    """If this fails, a fault hurts only steps with requests in them."""
    run = play(small(), Step(fault="accept"), Submit(0, limit=9), Step())
    assert run.steps[0].result is None
    assert (departed(run), delivered(run)) == ([], [(1, 1, 1)])


@pytest.mark.parametrize("capture", [False, True])
@pytest.mark.parametrize("seam", [None, *SEAMS])
def test_a_warm_up_touches_nobody(seam: str | None, capture: bool) -> None:
    """If this fails, a warm-up costs somebody a result, a step of a pause, or its slot."""
    events: list[AnyEvent] = [
        Submit(0, prompt=2, limit=30),
        Submit(1, prompt=2, limit=30),
        Step(),
        Pause(1),
        Step(accepts=(2,)),
        Step(accepts=(1,)),
    ]
    config = small(graph_batch_sizes=(2,))
    plain = play(config, *events)
    warmup = Warmup(rows=2, fault=seam, capture=capture)
    warm = play(config, *events[:4], warmup, *events[4:])
    assert warm.steps[1].batch.mode == ("capture" if capture else "warmup")
    assert (warm.steps[1].result is None) == (seam is not None)
    assert warm.steps[1].state == warm.steps[0].state
    assert delivered(plain) == [(0, 1, 1), (0, 2, 1), (1, 1, 3), (2, 1, 2), (2, 2, 2)]
    later = [(step + (step > 0), *rest) for step, *rest in delivered(plain)]  # steps count forwards
    assert delivered(warm) == later
    assert [ids(warm)[i] for i in (0, 2, 3)] == ids(plain) == [[1, 2], [1], [1, 2]]


@pytest.mark.parametrize(
    ("event", "rows", "prompts", "draft_len"),
    [
        (Warmup(), 1, 0, 3),
        (Warmup(rows=9), 3, 0, 3),
        (Warmup(rows=9, context=True), 2, 1, 3),
        (Warmup(rows=2, draft_len=0), 2, 0, 0),
        (Warmup(rows=2, draft_len=9), 2, 0, 3),
    ],
)
def test_a_warm_up_is_of_made_up_requests_within_the_sizes(
    event: Warmup, rows: int, prompts: int, draft_len: int
) -> None:
    """If this fails, a warm-up uses the id of a request, or more rows than there are slots."""
    batch = batches(play(small(), event))[0]
    assert (len(batch.generations), len(batch.contexts)) == (rows, prompts)
    assert batch.draft_len == draft_len
    names = [row.request_id for row in batch.rows]
    assert len(set(names)) == len(names)
    assert all(2**32 <= name < 2**33 for name in names)
    assert all(0 <= row.seq_slot < 3 for row in batch.rows)


def test_what_names_nobody_is_skipped() -> None:
    """If this fails, an event about a request that is gone, or never was, changes something."""
    submit = Submit(0, prompt=2, limit=2)
    plain = play(small(), submit, *[Step()] * 3)
    run = play(
        small(),
        Cancel(0),
        Pause(0),
        Recompute(0),
        submit,
        *[Step()] * 3,
        Cancel(0),
        Pause(0),
        Recompute(0),
    )
    assert ids(run) == ids(plain) == [[1], [1], [0]]
    facts = [[e for e in r.journal.entries if not isinstance(e, Asked)] for r in (run, plain)]
    assert facts[0] == facts[1]
