"""Drafts under a grammar (section 19), by hand."""

from array import array
from collections.abc import Sequence

from batches import gen, make_batch, small

from draftproof.reference.sequences import Sequences


class Scripted:
    """A matcher that allows what a script says of its depth."""

    def __init__(self, allowed: Sequence[set[int]]) -> None:
        self.script, self.taken = allowed, list[int]()

    @property
    def depth(self) -> int:
        return len(self.taken)

    def allowed(self) -> bytes:
        return bytes(token in self.script[self.depth] for token in range(6))

    def advance(self, token: int) -> bool:
        self.taken.append(token)
        return True

    def rollback(self, count: int) -> None:
        del self.taken[len(self.taken) - count :]


def test_each_position_takes_the_first_allowed_token_from_the_formulas_upwards() -> None:
    """If this fails, guided drafts are other tokens than the grammar and the formula give."""
    matcher = Scripted([{0, 3}, {1}, {2, 5}])
    sequences = Sequences(small(target_logits=True, vocab_size=6), lambda grammar: matcher)
    row = gen(10, 2, grammar=1, told=3)
    sequences.admit(make_batch(row, prompt_tokens=array("q", [0, 0, 0])))
    with sequences.drafting(row) as draw:
        assert draw is not None
        assert [draw(0, 2), draw(1, 4), draw(2, 2)] == [3, 1, 2]
        assert matcher.taken == [3, 1, 2]
    assert matcher.taken == []


def test_without_a_grammar_the_formula_alone_decides() -> None:
    """If this fails, a free request drafts under somebody's grammar."""
    sequences = Sequences(small(target_logits=True, vocab_size=6), lambda grammar: Scripted([]))
    row = gen(10, 2, told=3)
    sequences.admit(make_batch(row, prompt_tokens=array("q", [0, 0, 0])))
    with sequences.drafting(row) as draw:
        assert draw is None
