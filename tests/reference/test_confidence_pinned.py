"""Whose confidences a plan reads (section 14), by hand."""

from math import inf, nan

import pytest

from draftproof.reference.confidence import source_rows

LOGITS = [[1.0, 2.0], [nan, 2.0], [1.0, -inf], [3.0, 3.0], [30.0, 30.0], [30.0, 30.0]]
"""Four slots, the scratch row, the neutral one."""
STAMPS = [7, 7, 7, 6, 7, 7]


@pytest.mark.parametrize(
    ("slot", "row", "why"),
    [
        (0, 0, "it has drafted in the step before"),
        (1, 5, "one of its numbers is none"),
        (2, 5, "one of its numbers is not finite"),
        (3, 5, "it did not draft in the step before"),
        (4, 5, "nobody is in scratch"),
    ],
)
def test_a_row_is_read_whole_or_not_at_all(slot: int, row: int, why: str) -> None:
    """If this fails, a request is ranked by numbers that do not stand for its drafts."""
    assert source_rows(LOGITS, STAMPS, [slot], 7) == [row], why
