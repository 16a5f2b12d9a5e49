"""Section 14: where the tokens of a ragged step lie, and padding to a captured bucket."""

from __future__ import annotations

import pytest
import torch
from confidence import rules
from confidence.cases import Padded, Ragged, Ranks, padded, ragged, ranks
from confidence.sides import REFERENCE, TORCH, Side, both, ints
from hypothesis import given

from draftproof.gpu.ragged import fill_bucket, unpack
from draftproof.reference.ragged import Load, agreed_shape
from draftproof.reference.vocabulary import BatchError


@both
@given(case=ragged())
def test_packing_follows_the_offsets_and_scatter_back_undoes_it(side: Side, case: Ragged) -> None:
    """If this fails, a request is verified with a neighbour's tokens."""
    rules.layout(side, case)


@both
@given(case=padded)
def test_padding_hits_the_bucket_exactly_or_fails(side: Side, case: Padded) -> None:
    """If this fails, ranks disagree about the number of tokens, or padding takes real slack."""
    rules.padding(side, case)


@given(padded)
def test_both_sides_pad_alike(case: Padded) -> None:
    """If this fails, the layout of the host is not the one the device used."""
    results = []
    for side in (REFERENCE, TORCH):
        try:
            args = case.step.windows, case.padding, case.bucket, case.step.widest
            results.append(side.fill_bucket(*args))
        except BatchError:
            results.append([-1])
    assert results[0] == results[1]


@both
@given(case=ranks())
def test_all_ranks_agree_on_the_first_graph_that_fits_everybody(side: Side, case: Ranks) -> None:
    """If this fails, ranks replay different graphs and wait for each other for ever."""
    rules.agreement(side, case)


@both
@pytest.mark.parametrize(
    ("windows", "padding", "bucket", "widest", "filled"),
    [
        ([2, 4], 0, 6, 4, [2, 4]),
        ([2, 4], 0, 8, 4, [4, 4]),
        ([1, 4, 2], 0, 9, 4, [2, 4, 3]),  # a full row is passed over
        ([1, 4, 2], 0, 10, 4, [3, 4, 3]),
        ([1, 2], 2, 5, 4, [1, 2, 1, 1]),
        ([1, 2], 2, 10, 4, [4, 4, 1, 1]),
        ([1, 2], 2, 13, 4, [4, 4, 3, 2]),  # padding grows only when nobody else can
        ([], 2, 5, 4, [3, 2]),
        ([], 0, 0, 4, []),
    ],
)
def test_slack_goes_round(
    side: Side, windows: list[int], padding: int, bucket: int, widest: int, filled: list[int]
) -> None:
    """If this fails, slack is given to one request, or out of turn."""
    assert side.fill_bucket(windows, padding, bucket, widest) == filled


@pytest.mark.parametrize(("bucket", "takes"), [(4, "5 .. 12"), (13, "5 .. 12")])
def test_an_impossible_bucket_is_named(bucket: int, takes: str) -> None:
    """If this fails, nobody learns why a step does not fit its graph."""
    with pytest.raises(BatchError) as caught:
        REFERENCE.fill_bucket([1, 3], 1, bucket, 4)
    assert str(caught.value) == (
        f"a bucket of {bucket} tokens cannot hold windows [1, 3] "
        f"and 1 padding rows: that takes {takes}"
    )


@both
@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        ([(1, 2), (2, 3)], (2, 4)),
        ([(1, 4), (2, 5)], (2, 6)),
        ([(3, 4), (0, 0)], (4, 6)),  # an idle rank pads all its rows
        ([(2, 8), (1, 1)], (4, 12)),  # the tokens need more rows
        ([(4, 13)], None),
        ([(5, 5)], None),
    ],
)
def test_agreement_by_hand(
    side: Side, loads: list[tuple[int, int]], expected: tuple[int, int] | None
) -> None:
    """If this fails, a rank cannot be padded to the graph that the others replay."""
    assert side.agreed_shape(loads, [2, 4], [4, 6, 12], 4) == expected


def test_every_rank_computes_the_same_answer() -> None:
    """If this fails, the answer depends on who asks."""
    loads = [Load(1, 3), Load(3, 5), Load(2, 8)]
    answers = {agreed_shape(loads[n:] + loads[:n], [2, 4], [4, 9, 12], 4) for n in range(3)}
    assert answers == {(4, 12)}


def test_unpacking_tokens_of_several_numbers_and_an_empty_batch() -> None:
    """If this fails, hidden rows are scattered as if they were single numbers."""
    packed = torch.arange(6).view(3, 2)
    rows = unpack(packed, ints([1, 2]), 2, -1)
    assert rows.tolist() == [[[0, 1], [-1, -1]], [[2, 3], [4, 5]]]
    assert unpack(packed[:0], ints([]), 2, -1).shape == (0, 2, 2)
    assert TORCH.qo_indptr([]) == [0]


def test_the_device_keeps_the_windows_that_exceed_the_bucket() -> None:
    """If this fails, a caller that did not ask `bucket_fits` cannot even see it afterwards."""
    assert fill_bucket(ints([3, 3]), 2, 5, 4).tolist() == [3, 3]
