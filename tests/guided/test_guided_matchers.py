"""The grammar engine and the automata, which know nothing of each other, are the same matcher."""

from __future__ import annotations

import random

import pytest

from draftproof.reference.model import make as make_model
from draftproof.reference.vocabulary import Config, Matcher
from draftproof.sim import guide
from draftproof.sim.events import Step, Submit
from draftproof.sim.grammars import GRAMMARS, Automaton, automata
from draftproof.sim.guide import EngineMatcher, lend
from draftproof.sim.lockstep import check
from draftproof.sim.run import replay

NUMBERS = range(1, len(GRAMMARS) + 1)
CONFIG = Config(
    3, window_size=8, num_stages=1, max_num_requests=2, vocab_size=6, target_logits=True
)


@pytest.mark.parametrize("vocab_size", [6, 8, 40])
@pytest.mark.parametrize("number", NUMBERS)
def test_engine_and_automaton_agree_on_any_walk(number: int, vocab_size: int) -> None:
    """If this fails, a difference between model and worker is one of their grammars."""
    choices = random.Random(100 * number + vocab_size)
    one: Matcher = Automaton(number, vocab_size)
    other: Matcher = EngineMatcher(number, vocab_size)
    for _ in range(800):
        assert one.allowed() == other.allowed()
        assert one.depth == other.depth
        if choices.random() < 0.3:
            count = choices.randrange(one.depth + 1)
            one.rollback(count)
            other.rollback(count)
        else:
            allowed = [token for token, legal in enumerate(one.allowed()) if legal]
            legal = choices.random() < 0.8
            token = choices.choice(allowed) if legal else choices.randrange(vocab_size)
            assert one.advance(token) == other.advance(token) == (token in allowed)


def test_a_matcher_cannot_be_taken_back_further_than_it_went() -> None:
    """If this fails, a wrong roll-back count stays unseen: GRAM-3."""
    for make in (Automaton, EngineMatcher):
        matcher = make(1, 6)
        assert matcher.advance(0)
        with pytest.raises(AssertionError):
            matcher.rollback(2)


def test_each_side_gets_an_engine_of_its_own() -> None:
    """If this fails, one side's matchers are moved by the other, or both share a mistake."""
    lent = lend(CONFIG, lambda seam: None).guide
    assert lent is not None
    assert isinstance(lent(1), EngineMatcher)
    assert lent(1) is not lent(1)
    assert isinstance(automata(6)(1), Automaton)
    assert lend(Config(3, 8, 1, 2), lambda seam: None).guide is None


def test_without_the_engine_the_check_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a report claims that a real grammar engine took part."""
    monkeypatch.setattr(guide, "find_spec", lambda name: None)
    lent = lend(CONFIG, lambda seam: None).guide
    assert lent is not None
    assert isinstance(lent(1), Automaton)
    run = replay(CONFIG, [Submit(0, limit=9, grammar=2), Step(), Step()])
    checked = check(run, lambda config, friends: make_model(config, "cpu", friends))
    assert checked.not_checked == {"the grammar engine llguidance, which is not installed"}
