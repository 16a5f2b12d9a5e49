"""The implementation's side of guided decoding: `llguidance`, a grammar engine of real servers.

It is an extra (`pip install 'draftproof[guided]'`). Without it the automata of the model's side
stand in, and a check says that the engine was not part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from itertools import takewhile
from typing import Any

from draftproof.reference.drafter import make_drafter
from draftproof.reference.vocabulary import Collaborators, Config, Guide, Matcher
from draftproof.sim.grammars import GRAMMARS, automata, end_token, letter

ENGINE = "llguidance"


def installed() -> bool:
    """Whether the grammar engine is here."""
    return find_spec(ENGINE) is not None


def lend(config: Config, at: Callable[[str], None]) -> Collaborators:
    """What the harness lends an implementation."""
    guide = None
    if config.target_logits:
        guide = engine(config.vocab_size) if installed() else automata(config.vocab_size)
    return Collaborators(at, make_drafter(config), guide=guide)


def engine(vocab_size: int) -> Guide:
    """Matchers of the engine. The end token is none of its business: it tells when one may come."""

    def guide(number: int) -> Matcher:
        return EngineMatcher(number, vocab_size)

    return guide


class EngineMatcher:
    """A matcher (`draftproof.reference.vocabulary.Matcher`) around one of `llguidance`.

    That one fails for good at a token that it refuses, so it is asked first; it stops for good at
    a dead end, once asked what may come next, so a copy is asked; and it counts no end token once
    its text is over, so ends are counted here.
    """

    def __init__(self, number: int, vocab_size: int) -> None:
        import llguidance

        regex = llguidance.LLMatcher.grammar_from_regex(GRAMMARS[number - 1].regex)
        self._matcher = llguidance.LLMatcher(_tokenizer(vocab_size), regex, log_level=0)
        assert not self._matcher.is_error(), self._matcher.get_error()
        self._end = end_token(vocab_size)
        self._taken = self._ends = 0

    @property
    def depth(self) -> int:
        """How many tokens were taken in and not taken back."""
        return self._taken + self._ends

    def allowed(self) -> bytes:
        """[V], 1 for a token that may come next, else 0."""
        bias = b"" if self._ends else self._matcher.deep_copy().compute_logit_bias()
        allowed = bytearray(map(bool, bias)) or bytearray(self._end + 1)
        if not any(allowed):
            allowed[self._end] = 1
        return bytes(allowed)

    def advance(self, token: int) -> bool:
        """Take a token in. False, changing nothing, if it is not allowed."""
        if not self.allowed()[token]:
            return False
        if token == self._end:
            self._ends += 1
        else:
            assert self._matcher.consume_token(token), self._matcher.get_error()
            self._taken += 1
        return True

    def rollback(self, count: int) -> None:
        """Take the last tokens back, at most `depth`."""
        ends = min(count, self._ends)
        self._ends -= ends
        self._taken -= count - ends
        assert self._taken >= 0, f"{-self._taken} tokens too many to take back"
        assert self._matcher.rollback(count - ends), self._matcher.get_error()


@cache
def _tokenizer(vocab_size: int) -> Any:
    import llguidance

    wrapper = llguidance.TokenizerWrapper(_Letters(vocab_size))
    return llguidance.LLTokenizer(wrapper, n_vocab=vocab_size, slices=[])


class _Letters:
    """A tokenizer of single letters, as `llguidance` wants to see one."""

    def __init__(self, vocab_size: int) -> None:
        self.eos_token_id = end_token(vocab_size)
        self.bos_token_id = None
        self._letters = [letter(t) for t in range(vocab_size - 1)]
        own = [text or f"\xff{t}" for t, text in enumerate(self._letters)]
        self.tokens = [text.encode("latin-1") for text in own] + [b"<end>"]
        self.special_token_ids = [self.eos_token_id]

    def __call__(self, text: bytes) -> list[int]:
        """The tokens of a text, as far as it is made of letters that there are."""
        letters = takewhile(self._letters.__contains__, text.decode("latin-1"))
        return [self._letters.index(one) for one in letters]
