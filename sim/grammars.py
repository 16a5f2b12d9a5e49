"""A few small grammars, written out as automata, and a matcher that walks them.

Token t stands for the t-th letter of the alphabet; the last token of a vocabulary is the end token.
The model's side is guided by these automata, the implementation's by a real grammar engine
(`draftproof.sim.guide`), which is given the same grammars as regular expressions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftproof.reference.vocabulary import Guide, Matcher


@dataclass(frozen=True, slots=True)
class Grammar:
    """edges: per state, from 0, where each letter leads; final: states in which a text may end."""

    regex: str
    edges: Sequence[Mapping[str, int]]
    final: frozenset[int]


GRAMMARS = (
    Grammar("[a-d]*", [dict.fromkeys("abcd", 0)], frozenset({0})),
    Grammar("(ab|ba|c)*", [{"a": 1, "b": 2, "c": 0}, {"b": 0}, {"a": 0}], frozenset({0})),
    Grammar(
        "a[bc]{1,3}d?",
        [
            {"a": 1},
            {"b": 2, "c": 2},
            {"b": 3, "c": 3, "d": 5},
            {"b": 4, "c": 4, "d": 5},
            {"d": 5},
            {},
        ],
        frozenset({2, 3, 4, 5}),
    ),
    Grammar("[ab]*(c[~!])?", [{"a": 0, "b": 0, "c": 1}, {"~": 2, "!": 2}, {}], frozenset({0, 2})),
)
"""Number 1 is the first; 0 stands for none. What each is for: nearly everything is allowed; the
next token follows from the last; a text that is over after five tokens at most; a dead end, since
there are no tokens but letters. A vocabulary has the letters a to e at least."""


def end_token(vocab_size: int) -> int:
    """The token that ends a text, whatever its grammar is."""
    return vocab_size - 1


def letter(token: int) -> str:
    """What a token that is not the end token stands for; nothing, beyond the alphabet."""
    return chr(ord("a") + token) if token < 26 else ""


END = -1
"""The place behind a text that is over."""


def moves(number: int, vocab_size: int, place: int) -> dict[int, int]:
    """Which tokens may come next at a place of grammar `number`, and where each leads.

    Behind the end, and where no token leads on, the end token alone may come.
    """
    if place == END:
        return {end_token(vocab_size): END}
    grammar = GRAMMARS[number - 1]
    edges = grammar.edges[place]
    found = {t: edges[letter(t)] for t in range(vocab_size - 1) if letter(t) in edges}
    if place in grammar.final or not found:
        found[end_token(vocab_size)] = END
    return found


class Automaton:
    """A matcher (`draftproof.reference.vocabulary.Matcher`) that remembers its whole path."""

    def __init__(self, number: int, vocab_size: int) -> None:
        self.number = number
        self.vocab_size = vocab_size
        self.path = [0]

    @property
    def depth(self) -> int:
        """How many tokens were taken in and not taken back."""
        return len(self.path) - 1

    def allowed(self) -> bytes:
        """[V], 1 for a token that may come next, else 0."""
        allowed = moves(self.number, self.vocab_size, self.path[-1])
        return bytes(token in allowed for token in range(self.vocab_size))

    def advance(self, token: int) -> bool:
        """Take a token in. False, changing nothing, if it is not allowed."""
        allowed = moves(self.number, self.vocab_size, self.path[-1])
        if token not in allowed:
            return False
        self.path.append(allowed[token])
        return True

    def rollback(self, count: int) -> None:
        """Take the last tokens back, at most `depth`."""
        assert 0 <= count <= self.depth, f"{count} tokens to take back, of {self.depth}"
        del self.path[len(self.path) - count :]


def automata(vocab_size: int) -> Guide:
    """The guide of the model's side, and of the invariants."""

    def guide(number: int) -> Matcher:
        return Automaton(number, vocab_size)

    return guide
