"""Sections 9 and 15: drafts cut or filled to a step's length, and where an output ends."""

import pytest

from draftproof.reference.lengths import deliverable, fit_drafts


@pytest.mark.parametrize(
    ("proposed", "length", "fitted"),
    [
        ([5, 6, 7], 3, [5, 6, 7]),
        ([5, 6, 7], 2, [5, 6]),
        ([5, 6, 7], 0, []),
        ([5], 3, [5, 0, 0]),
        ([], 2, [0, 0]),
        ([], 0, []),
    ],
)
def test_drafts_are_cut_or_filled_with_placeholders(
    proposed: list[int], length: int, fitted: list[int]
) -> None:
    """If this fails, a step verifies too many drafts, or stale ones after a shorter step."""
    assert fit_drafts(proposed, length) == fitted


@pytest.mark.parametrize(
    ("tokens", "stop", "room", "emitted"),
    [
        ([4, 5, 6], None, 9, [4, 5, 6]),
        ([4, 5, 6], None, 2, [4, 5]),
        ([4, 5, 6], 5, 9, [4, 5]),
        ([4, 5, 6, 5], 5, 9, [4, 5]),
        ([4, 5, 6], 6, 2, [4, 5]),
        ([4, 5, 6], 5, 2, [4, 5]),
        ([4, 5, 6], 4, 1, [4]),
        ([4, 5, 6], 5, 0, []),
        ([4, 5, 6], 7, 3, [4, 5, 6]),
        ([0, 5], 0, 3, [0]),
    ],
)
def test_an_output_ends_at_the_earlier_of_stop_and_limit(
    tokens: list[int], stop: int | None, room: int, emitted: list[int]
) -> None:
    """If this fails, tokens after a stop token or beyond the limit reach the user."""
    assert deliverable(tokens, stop, room) == emitted
