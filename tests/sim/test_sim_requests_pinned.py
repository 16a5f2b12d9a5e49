"""What a request is made of, by hand."""

import pytest
from batches import small

from draftproof.sim.events import Submit
from draftproof.sim.requests import Request


@pytest.mark.parametrize(("asked", "grammar"), [(0, 0), (1, 1), (4, 4), (5, 0), (6, 1)])
def test_there_are_four_grammars_and_none(asked: int, grammar: int) -> None:
    """If this fails, a request asks for a grammar that there is none of."""
    config = small(target_logits=True, vocab_size=6)
    assert Request.of(Submit(0, grammar=asked), 1, config).grammar == grammar
