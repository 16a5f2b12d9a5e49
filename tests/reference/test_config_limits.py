"""Which numbers a configuration may have, to the last one that it may."""

from dataclasses import replace

import pytest
from batches import small

from draftproof.reference.config import checked
from draftproof.reference.vocabulary import Config, ConfigError

LARGE = Config(1, window_size=1, num_stages=1, max_num_requests=1, max_num_tokens=2**21)
GUIDED = replace(small(), target_logits=True, use_rejection_sampling=False, vocab_size=6)
SIZES = ("max_draft_len", "window_size", "num_stages", "max_num_requests", "vocab_size")


@pytest.mark.parametrize(
    ("base", "changes"),
    [
        (LARGE, {"window_size": 2**20}),
        (LARGE, {"vocab_size": 2**20}),
        (LARGE, {"vocab_size": 2}),
        (LARGE, {"num_stages": 128}),
        (LARGE, {"max_num_tokens": 2}),
        (LARGE, {"graph_batch_sizes": (1,)}),
        (GUIDED, {}),
        (LARGE, {"use_rejection_sampling": True, "vocab_size": 5, "d2t": (0, 4)}),
        (LARGE, {"use_rejection_sampling": True, "vocab_size": 5, "d2t": (3,)}),
        (LARGE, {"use_rejection_sampling": True, "drawn_uniforms": True}),
    ],
)
def test_the_last_number_that_is_allowed_is_allowed(base: Config, changes: dict[str, int]) -> None:
    """If this fails, a configuration is refused that can be served."""
    given = replace(base, **changes)  # type: ignore[arg-type]  # each has its own type
    assert replace(checked(given), block_size=None) == replace(given, block_size=None)


@pytest.mark.parametrize(
    ("base", "changes", "message"),
    [
        *[(LARGE, {name: 0}, f"{name} must be a whole number") for name in SIZES],
        *[(LARGE, {name: 2**20 + 1}, f"{name} must not exceed 2") for name in SIZES],
        (LARGE, {"num_stages": 129}, "num_stages must not exceed 128"),
        (LARGE, {"vocab_size": 1}, "vocab_size must be at least 2"),
        (LARGE, {"max_num_tokens": 1}, "max_num_tokens 1 must be at least 2"),
        (LARGE, {"graph_batch_sizes": (0,)}, "must be ascending and at least 1"),
        (LARGE, {"graph_batch_sizes": (2,)}, "must not exceed max_num_requests"),
        (LARGE, {"target": "other"}, "must be 'scripted' or 'autonomous'"),
        (LARGE, {"drawn_uniforms": True}, "drawn_uniforms is set"),
        (LARGE, {"d2t": (0,)}, "d2t is set"),
        (GUIDED, {"vocab_size": 5}, "must be at least 6 with target_logits"),
        (GUIDED, {"use_rejection_sampling": True}, "target_logits chooses tokens by argmax"),
        (GUIDED, {"target": "autonomous"}, "target_logits needs the scripted target"),
    ],
)
def test_the_next_one_is_refused(base: Config, changes: dict[str, int], message: str) -> None:
    """If this fails, a configuration is accepted in which something does not fit."""
    given = replace(base, **changes)  # type: ignore[arg-type]  # each has its own type
    with pytest.raises(ConfigError, match=message):
        checked(given)


@pytest.mark.parametrize("d2t", [(), (1, 1), (-1,), (5,), (-1, 2), (2, 5)])
def test_a_draft_vocabulary_names_tokens_of_the_target_once(d2t: tuple[int, ...]) -> None:
    """If this fails, a draft token stands for no token, or for that of another."""
    given = replace(LARGE, use_rejection_sampling=True, vocab_size=5, d2t=d2t)
    with pytest.raises(ConfigError, match="d2t"):
        checked(given)
