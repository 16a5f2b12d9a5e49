"""Whole schedules under grammars and penalties: where texts end, what is told, what is saved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec import structs
from schedules import departed, output, play

from draftproof.fuzz.cases import Subject, seeded_case
from draftproof.properties.invariants import Invariants
from draftproof.reference import sequences
from draftproof.reference.config import checked
from draftproof.reference.sequences import Sequences
from draftproof.reference.vocabulary import Config, ConfigError, ContextRow, Penalties
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import AnyEvent, Pause, Recompute, Step, Submit, Warmup
from draftproof.sim.grammars import GRAMMARS, Automaton
from draftproof.sim.loading import load
from draftproof.sim.lockstep import check
from draftproof.sim.logits import PENALTIES, logits
from draftproof.sim.run import Run
from draftproof.sim.traces import Trace, decode, encode

CONFIG = Config(3, 8, 1, 2, vocab_size=6, target_logits=True)
WORKER = Subject(load("draftproof.gpu.worker:make"))
END = 5


@pytest.mark.parametrize("number", range(1, len(GRAMMARS) + 1))
def test_a_request_says_a_text_of_its_grammar_and_stops_at_its_end(number: int) -> None:
    """If this fails, tokens behind the end are emitted, or the engine does not know the end."""
    for first in range(6):
        submit = Submit(first, prompt=2, limit=30, grammar=number, stop=0)
        run = play(CONFIG, submit, *[Step(accepts=(3, 1))] * 30)
        text, walk = output(run, first + 1), Automaton(number, 6)
        assert all(map(walk.advance, text))
        assert END not in text[:-1]
        assert departed(run) == [(first + 1, "finished")]
        assert text[-1] == END or len(text) == 30


def test_nobody_is_handed_the_answer() -> None:
    """If this fails, a worker can pass without choosing anything."""
    run = play(CONFIG, Submit(0, prompt=3, limit=9), Step(), Step())
    assert [list(step.batch.target_tokens) for step in run.steps] == [[], []]
    assert all(step.batch.target_logits for step in run.steps)


def test_accept_counts_steer_a_target_that_only_shows_logits() -> None:
    """If this fails, blocks are hardly ever accepted, and nothing behind them is tested."""
    steps = [Step(accepts=(n,)) for n in (0, 3, 1, 2, 3, 0)]
    run = play(CONFIG, Submit(0, imported=True, limit=99), Step(), *steps)
    accepted = [step.result.new_tokens_lens[0] - 1 for step in run.steps[1:] if step.result]
    assert accepted == [0, 3, 1, 2, 3, 0]


def test_logits_are_whole_distinct_and_led_by_the_scripted_token() -> None:
    """If this fails, an argmax depends on which of two equal logits is seen first."""
    for greedy in (True, False):
        row = logits(5, 9, 2, greedy, 6)
        assert len(set(row)) == 6
        assert all(value == int(value) for value in row)
        assert row.index(max(row)) == 2
    assert logits(5, 9, 2, True, 6) != logits(5, 9, 2, False, 6)


def test_a_prompt_is_told_once_whoever_computes_it() -> None:
    """If this fails, reuse, import or a recompute change what penalties see."""
    asked = Submit(0, prompt=6, limit=40, penalties=1)
    ways: list[list[AnyEvent]] = [
        [asked, Step()],
        [asked, Step(chunk=2), Step(chunk=3), Step()],
        [structs.replace(asked, reused=4), Step()],
        [structs.replace(asked, imported=True), Step()],
        [asked, Step(chunk=4), Recompute(0), Step(chunk=5), Step()],
        [asked, Step(), Step(), Recompute(0), Step(chunk=7), Step()],
        [asked, Step(), Pause(0), Step(), Step()],
    ]
    seen = []
    for events in ways:
        run = play(CONFIG, *events)
        WORKER.judge(run)
        told = [list(step.batch.prompt_tokens or ()) for step in run.steps]
        seen.append([token for tokens in told for token in tokens])
        assert run.steps[-1].state.prompt_seen[0] == [int(t in seen[-1]) for t in range(6)]
    assert seen == [seen[0]] * len(ways)
    assert len(seen[0]) == 6


def test_only_the_last_chunk_is_told_to_be_it() -> None:
    """If this fails, a worker counts a token that nobody is given."""
    run = play(CONFIG, Submit(0, prompt=5, limit=9), Step(chunk=2), Step(chunk=2), Step())
    rows = [row for step in run.steps for row in step.batch.contexts]
    assert [(row.length, row.last) for row in rows] == [(2, False), (2, False), (1, True)]


def test_a_failed_step_leaves_nothing_to_the_next_owner() -> None:
    """If this fails, a grammar or a count of failed requests shows: section 16, row 6."""
    for seam in ("accept", "seed", "draft", "publish"):
        first = Submit(0, prompt=3, limit=40, grammar=2, penalties=4)
        after = Submit(1, prompt=3, limit=40, grammar=2, penalties=4)
        events: list[AnyEvent] = [first, Step(), Step(accepts=(2,)), Step(accepts=(1,), fault=seam)]
        events += [after, Step(), Step(accepts=(3,)), Warmup(live=True), Step()]
        WORKER.judge(play(CONFIG, *events))


def test_guided_steps_are_replayed_and_padded_like_others() -> None:
    """If this fails, a graph that knows no masks is replayed for a guided batch."""
    config = replace(CONFIG, graph_batch_sizes=(2,))
    graphed = Subject(load("draftproof.gpu.worker:make", options={"graphs": "on"}))
    for grammar in (0, 2):
        asked = Submit(0, prompt=3, limit=40, grammar=grammar, penalties=4)
        run = play(config, asked, Step(), *[Step(accepts=(2, 0), graph=True)] * 6)
        assert {step.batch.mode for step in run.steps[1:]} == {"replay"}
        graphed.judge(run)


def test_other_configurations_ignore_what_a_submit_asks_for() -> None:
    """If this fails, an event does not fit every state."""
    plain = Config(3, 8, 1, 2)
    runs = [play(plain, asked, Step(), Step()) for asked in (Submit(0, limit=9), ASKED)]
    assert [step.result for step in runs[0].steps] == [step.result for step in runs[1].steps]
    assert runs[1].steps[1].batch.generations[0].grammar == 0


ASKED = Submit(0, limit=9, grammar=3, penalties=4)


def test_any_number_names_a_grammar_and_penalties() -> None:
    """If this fails, an event that was made by hand has no meaning."""
    run = play(CONFIG, Submit(0, limit=9, grammar=8, penalties=11), Step())
    row = run.steps[0].batch.contexts[0]
    assert (row.grammar, row.penalties) == (3, PENALTIES[1])


def test_traces_of_earlier_versions_still_mean_the_same() -> None:
    """If this fails, a saved trace is refused, or replays to something else."""
    line = b'{"type":"submit","request":0,"prompt":2,"limit":5}'
    assert msgspec.json.decode(line, type=AnyEvent) == Submit(0, prompt=2, limit=5)
    old = Trace(config=checked(Config(3, 8, 1, 2)), events=(Submit(0), Step()))
    assert b"grammar" not in encode(old)
    assert b"target_logits" not in encode(old)
    assert decode(encode(old), "old") == old
    new = Trace(config=checked(CONFIG), events=(ASKED, Step()))
    assert decode(encode(new), "new") == new


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"use_rejection_sampling": True}, "under the strict rule: switch use_rejection_sampling"),
        ({"target": "autonomous"}, "target_logits needs the scripted target"),
        ({"vocab_size": 5}, "vocab_size 5 must be at least 6 with target_logits"),
    ],
)
def test_what_cannot_be_combined_is_refused(changes: dict[str, Any], text: str) -> None:
    """If this fails, a combination that has no meaning is run."""
    with pytest.raises(ConfigError, match=text):
        checked(replace(CONFIG, **changes))


def test_campaigns_meet_every_grammar_and_all_penalties() -> None:
    """If this fails, a part of all this is not exercised by any campaign."""
    grammars: set[int] = set()
    penalties: set[Penalties] = set()
    kinds: set[tuple[bool, bool, bool]] = set()
    for case in range(250):
        run: Run = seeded_case(3, case)
        if not run.config.target_logits:
            continue
        for step in run.steps:
            for row in step.batch.rows:
                grammars.add(row.grammar)
                penalties.add(row.penalties)
                if row.grammar and not isinstance(row, ContextRow):
                    ragged = step.batch.verify_lens is not None
                    kinds.add((row.greedy, ragged, step.batch.draft_len == 0))
    assert grammars == set(range(5))
    assert penalties == set(PENALTIES)
    assert kinds == {(g, r, z) for g in (True, False) for r, z in ((0, 0), (0, 1), (1, 0))}


def _counts_twice(self: Sequences, batch: Any, tokens: Any) -> None:
    COMMIT(self, batch, [[*row[:-1], *row] for row in tokens])


def _never_takes_back(matcher: Automaton, count: int) -> None:
    """Of the automata that guide the model."""


def _masks_nothing(scores: list[float], allowed: bytes) -> int:
    return scores.index(max(scores))


COMMIT = Sequences.commit


@pytest.mark.parametrize(
    ("where", "name", "instead", "broken"),
    [
        (Sequences, "commit", _counts_twice, {"I16"}),
        (Automaton, "rollback", _never_takes_back, {"I15", "I7", "I19"}),
        (sequences, "best", _masks_nothing, {"I7", "I15"}),
        (sequences, "penalised", lambda logits, *_: list(logits), {"I7"}),
    ],
)
def test_the_invariants_do_not_take_the_models_word(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str, instead: Any, broken: set[str]
) -> None:
    """If this fails, a model that is wrong makes every implementation right that errs like it."""
    monkeypatch.setattr(where, name, instead)
    found: set[str] = set()
    for case in range(60):
        run = seeded_case(0, case)
        if run.config.target_logits:
            try:
                check(run, None, [Invariants(run.config)])
            except Divergence as divergence:
                found.add(divergence.field)
    assert found & broken
    assert found <= broken | {"AssertionError"}
