"""What a capture is made of (semantics, section 11), by hand."""

import pytest
from batches import small

from draftproof.sim.events import Warmup
from draftproof.sim.warmups import warmup_rows

CONFIG = small(
    confidence_scheduling=True, graph_batch_sizes=(1, 2), verify_buckets=(2, 4, 5, 7, 8, 9)
)


@pytest.mark.parametrize(
    ("rows", "bucket", "windows"), [(1, 4, [4]), (2, 8, [4, 4])], ids=["one row", "two rows"]
)
def test_a_graph_is_captured_for_the_most_tokens_that_its_rows_can_have(
    rows: int, bucket: int, windows: list[int]
) -> None:
    """If this fails, the widest graph is never captured in advance, or one that none can fill."""
    event = Warmup(rows=rows, capture=True, ragged=True)
    made, found = warmup_rows(CONFIG, event, 0, [])
    assert (made.mode, found, made.windows) == ("capture", bucket, windows)


def test_no_bucket_of_a_shorter_block() -> None:
    """If this fails, a graph is captured for windows that no step of that length has."""
    event = Warmup(rows=2, capture=True, ragged=True, draft_len=2)
    made, found = warmup_rows(CONFIG, event, 0, [])
    assert (found, made.windows, made.draft_len) == (None, None, 2)


def test_a_graph_may_have_one_token_for_each_row() -> None:
    """If this fails, the smallest bucket is never captured, or for windows that do not fit it."""
    config = small(confidence_scheduling=True, graph_batch_sizes=(2,), verify_buckets=(2,))
    made, found = warmup_rows(config, Warmup(rows=2, capture=True, ragged=True), 0, [])
    assert (found, made.windows) == (2, [1, 1])
