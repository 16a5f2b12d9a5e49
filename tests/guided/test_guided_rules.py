"""Grammars and penalties over one block, pinned: what the target's tokens are, and what is kept."""

from __future__ import annotations

import pytest
from guided.hand import END, A, B, C, D, E, Make, Request, both_sides, prefer

from draftproof.gpu.capture_safety import CaptureWatch
from draftproof.gpu.worker import make as make_torch
from draftproof.reference.vocabulary import Batch, Config, Penalties, StepResult, WorkerState
from draftproof.sim.grammars import Automaton

PAIRS, SHORT, DEAD_END = 2, 3, 4
"""(ab|ba|c)*, a[bc]{1,3}d? and [ab]*(c[~!])?, by their numbers."""


# Grammars: each row's mask is that of its own prefix


@both_sides
def test_every_row_is_masked_by_the_drafts_before_it(make: Make) -> None:
    """If this fails, a mask belongs to another row; here the best tokens are never allowed."""
    request = Request(make, grammar=PAIRS)
    rows = prefer(E, A), prefer(A, D, B), prefer(D, C), prefer(E, D, END)
    assert request.step([A, B, C], *rows) == [A, B, C, END]
    assert request.depth == 4


@both_sides
def test_an_illegal_draft_is_rejected_and_guidance_goes_on(make: Make) -> None:
    """If this fails, the schema is violated behind a draft that it does not allow: GRAM-2."""
    request = Request(make, grammar=PAIRS)
    assert request.step([A, A, A], prefer(A), prefer(A), prefer(A), prefer(A)) == [A, B]
    assert request.depth == 2
    assert request.step([], prefer(E, D, C)) == [C]


@both_sides
def test_rejected_drafts_are_taken_back(make: Make) -> None:
    """If this fails, the grammar runs ahead of what is committed: GRAM-1, GRAM-3."""
    request = Request(make, grammar=PAIRS)
    assert request.step([A, B, A], prefer(C), prefer(B), prefer(A), prefer(B)) == [C]
    assert request.depth == 1
    assert request.step([B, A], prefer(B), prefer(B), prefer(C)) == [B, A, C]
    assert request.depth == 4


@both_sides
def test_a_step_without_drafts_is_masked(make: Make) -> None:
    """If this fails, r = 0 lets tokens through that the grammar forbids."""
    request = Request(make, grammar=SHORT)
    assert [request.step([], prefer(E, D, END, B)) for _ in range(2)] == [[A], [B]]
    assert request.depth == 2


@both_sides
def test_only_the_end_token_follows_the_end(make: Make) -> None:
    """If this fails, something is committed behind a complete text: GRAM-10, GRAM-12."""
    request = Request(make, grammar=SHORT)
    assert request.step([A, B, END], prefer(A), prefer(B), prefer(END), prefer(A)) == [
        A,
        B,
        END,
        END,
    ]
    assert request.depth == 4
    assert request.step([], prefer(B)) == [END]


@both_sides
def test_a_dead_end_lets_nothing_through_but_the_end_token(make: Make) -> None:
    """If this fails, a state without any token stops the matcher, or commits anything: GRAM-4."""
    request = Request(make, grammar=DEAD_END)
    assert request.step([C, A, A], prefer(C), prefer(A), prefer(A), prefer(A)) == [C, END]
    assert request.depth == 2


@both_sides
def test_of_a_window_only_its_own_rows_count(make: Make) -> None:
    """If this fails, a ragged step reads masks or logits by 1 + r rows."""
    request = Request(make, grammar=PAIRS)
    rows = prefer(A), prefer(E, B)
    assert request.step([A, B, C], *rows, verify_lens=(2,)) == [A, B]
    assert request.depth == 2


@pytest.mark.parametrize("grammar", [1, PAIRS, SHORT, DEAD_END])
@both_sides
def test_a_block_is_drafted_under_the_grammar(make: Make, grammar: int) -> None:
    """If this fails, drafts are proposed that can only be rejected, or drafting leaves a trace."""
    request, walk = Request(make, grammar=grammar), Automaton(grammar, 6)
    for _ in range(4):
        tokens = request.step([E, E, E], *[prefer(B, A, C)] * 4)
        assert all(map(walk.advance, tokens)), tokens
        committed = walk.depth
        assert request.depth == committed
        assert all(map(walk.advance, request.proposed)), request.proposed
        walk.rollback(walk.depth - committed)


# Penalties: each token seen once, each draft before its own row only


@both_sides
def test_a_draft_is_seen_by_the_rows_behind_it(make: Make) -> None:
    """If this fails, a row sees its own draft, or not the one before; of equals the first wins."""
    request = Request(make, penalties=Penalties(frequency=1))
    row = [0.0, 3.0, 2.0, 0.0, 0.0, 0.0]
    assert request.step([B, B, B], row, row, row, row) == [B, B, C]
    assert request.counts == [0, 2, 1, 0, 0, 0]
    assert request.step([], [0.0, 3.0, 2.0, 0.0, 0.0, 0.0]) == [B]
    assert request.step([], [0.0, 3.0, 2.0, 0.0, 0.0, 0.0]) == [C]


@both_sides
def test_presence_is_taken_off_once(make: Make) -> None:
    """If this fails, presence counts how often a token is there."""
    request = Request(make, penalties=Penalties(presence=2))
    row = [-9.0, 3.0, 0.0, -9.0, -9.0, -9.0]
    assert request.step([B, B, B], row, row, row, row) == [B, B, B, B]


@both_sides
def test_repetition_divides_what_is_positive_and_multiplies_the_rest(make: Make) -> None:
    """If this fails, a penalised token with a negative logit is favoured."""
    request = Request(make, penalties=Penalties(repetition=2.0))
    assert request.step([], [-9.0, 4.0, 3.0, -9.0, -9.0, -9.0]) == [B]
    assert request.step([], [-9.0, 4.0, 3.0, -9.0, -9.0, -9.0]) == [C]
    assert request.step([], [-9.0, -2.0, -2.0, -3.0, -9.0, -9.0]) == [D]


@both_sides
def test_only_repetition_counts_the_prompt(make: Make) -> None:
    """If this fails, a prompt's tokens are penalised like output, or not at all."""
    row = [-9.0, 4.0, 3.0, -9.0, -9.0, -9.0]
    for penalties, token in ((Penalties(2.0), C), (Penalties(presence=2, frequency=2), B)):
        request = Request(make, penalties=penalties)
        assert request.step([], row, prompt=[B]) == [token]
        assert request.counts[token] == 1


@both_sides
def test_the_token_of_a_chunk_counts_only_if_it_is_the_last(make: Make) -> None:
    """If this fails, a token that nobody is given is penalised, or moves the grammar."""
    for last in (False, True):
        request = Request(make, grammar=PAIRS, penalties=Penalties(frequency=1))
        assert request.chunk([E, D], prefer(E, C), last) == C
        assert (sum(request.counts), request.depth) == (last, last)


@both_sides
def test_a_new_request_begins_with_nothing(make: Make) -> None:
    """If this fails, a request is penalised or guided by what another one has said."""
    request = Request(make, grammar=PAIRS, penalties=Penalties(2.0, 1, 1))
    request.step([A, B, C], prefer(A), prefer(B), prefer(C), prefer(C), prompt=[B])
    request.about |= {"incarnation": 2}
    request.position = 0
    assert request.step([], [0.0, 2.0, 1.0, 0.0, 0.0, 0.0]) == [B]
    assert (request.counts, request.depth) == ([0, 1, 0, 0, 0, 0], 1)


@both_sides
def test_a_warm_up_under_a_live_name_moves_nothing(make: Make) -> None:
    """If this fails, a warm-up takes its drafts into grammars and counts: section 16, row 5."""
    request = Request(make, grammar=PAIRS, penalties=Penalties(2.0, 1, 1))
    request.step([A, B], prefer(A), prefer(B), prefer(C))
    before = request.counts, request.depth
    request.step([A, B], prefer(A), prefer(B), prefer(C), mode="warmup")
    assert (request.counts, request.depth) == before
    assert request.step([], prefer(E, C)) == [C]


@both_sides
def test_a_worker_of_other_configurations_shows_none_of_it(make: Make) -> None:
    """If this fails, reports say that something was checked which does not exist."""
    state: WorkerState = Request(make).worker.state()
    assert state.token_counts is not None
    state = Request(make, Config(3, 8, 1, 2)).worker.state()
    assert (state.token_counts, state.prompt_seen, state.grammar_depth) == (None, None, None)


# What a graph holds


@pytest.mark.parametrize("grammar", [0, PAIRS])
def test_only_a_grammar_waits_for_the_device(monkeypatch: pytest.MonkeyPatch, grammar: int) -> None:
    """If this fails, steps with penalties fit no graph, or guided ones are said to fit one."""
    request = Request(make_torch, grammar=grammar, penalties=Penalties(2.0, 1, 1))
    whole, found = request.worker.forward, set()

    def watched(batch: Batch) -> StepResult:
        with CaptureWatch() as watch:
            result = whole(batch)
        found.update(watch.operations)
        return result

    for _ in range(2):  # the first forward makes what all later ones share
        found.clear()
        monkeypatch.setattr(request.worker, "forward", watched)
        request.step([A, B], prefer(A), prefer(B), prefer(C))
    assert bool(found) == bool(grammar)
