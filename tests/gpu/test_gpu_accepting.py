"""Acceptance, one operation at a time, against the model's, on generated inputs, edge cases first.

Examples are tried before anything is drawn. What is drawn is small, so that equal tokens and equal
products are common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from examples import share
from hypothesis import example, given
from hypothesis import strategies as st
from kernels.twins import REJECT, STRICT
from torch import Tensor

from draftproof.gpu.rejection import Sampling
from draftproof.reference.acceptance import one_hot, rejection, strict

pytestmark = pytest.mark.interpreted

NAN = float("nan")
VOCAB = 4


def cut(tokens: Tensor, counts: Tensor) -> list[list[int]]:
    """What counts of each row."""
    return [row[:n] for row, n in zip(tokens.tolist(), counts.tolist(), strict=True)]


# ---- strict acceptance ---------------------------------------------------------------------------

Row = tuple[list[int], list[int], int]
"""Drafts, the target's tokens, verify window."""


def rows_of(r: int) -> st.SearchStrategy[tuple[int, list[Row]]]:
    tokens = st.integers(0, 1)
    row = st.tuples(
        st.lists(tokens, min_size=r, max_size=r),
        st.lists(tokens, min_size=r + 1, max_size=r + 1),
        st.integers(1, r + 1),
    )
    return st.tuples(st.just(r), st.lists(row, max_size=4))


def check_strict(accept: Callable[..., Any], r: int, rows: Sequence[Row], ragged: bool) -> None:
    drafts = torch.tensor([row[0] for row in rows], dtype=torch.int64).view(len(rows), r)
    target = torch.tensor([row[1] for row in rows], dtype=torch.int64).view(len(rows), r + 1)
    windows = torch.tensor([row[2] for row in rows], dtype=torch.int64) if ragged else None
    found = cut(*accept(drafts, target, windows))
    assert found == [strict(d, t[:w] if ragged else t) for d, t, w in rows]


@pytest.mark.parametrize("kernels", STRICT)
@share(0.5)
@given(given_rows=st.integers(0, 4).flatmap(rows_of), ragged=st.booleans())
@example(given_rows=(3, []), ragged=False)  # an empty batch
@example(given_rows=(3, [([1, 0, 1], [1, 0, 1, 1], 4)]), ragged=True)  # one row, all accepted
@example(given_rows=(3, [([1, 0, 1], [0, 0, 1, 1], 4)]), ragged=False)  # nothing accepted
@example(given_rows=(2, [([1, 1], [1, 1, 1], 1), ([1, 1], [1, 1, 0], 3)]), ragged=True)  # window 1
@example(given_rows=(0, [([], [1], 1), ([], [0], 1)]), ragged=False)  # no drafts
def test_strict_acceptance(kernels: str, given_rows: tuple[int, list[Row]], ragged: bool) -> None:
    """If this fails, the two sides keep different tokens of the same block."""
    check_strict(STRICT[kernels], *given_rows, ragged)


# ---- rejection sampling --------------------------------------------------------------------------


@dataclass(frozen=True)
class Sampled:
    """One row: drafts [r], p [r][V], q [r + 1][V], numbers [r], the ending's number, and how many
    drafts were proposed; the others are token 0, whatever p says of them."""

    drafts: list[int]
    p: list[list[float]]
    q: list[list[float]]
    accept: list[float]
    recover: float = 0.5
    proposed: int = 9
    window: int = 9


def laws(count: int) -> st.SearchStrategy[list[list[float]]]:
    """Multiples of 2^-10 that add up to 1; zeros are common."""
    cuts = st.lists(st.sampled_from((0, 256, 511, 512, 1024)), min_size=3, max_size=3).map(sorted)
    law = cuts.map(lambda c: [(b - a) / 1024 for a, b in zip([0, *c], [*c, 1024], strict=True)])
    return st.lists(law, min_size=count, max_size=count)


UNIFORM = st.sampled_from((1, 1024, 2048, 2049, 4096)).map(lambda n: n / 4096)


def sampled_rows(r: int) -> st.SearchStrategy[tuple[int, list[Sampled]]]:
    row = st.builds(
        Sampled,
        st.lists(st.integers(0, VOCAB - 1), min_size=r, max_size=r),
        laws(r),
        laws(r + 1),
        st.lists(UNIFORM, min_size=r, max_size=r),
        UNIFORM,
        st.integers(0, r),
        st.integers(1, r + 1),
    )
    return st.tuples(st.just(r), st.lists(row, max_size=3))


def check_reject(reject: Callable[..., Any], r: int, rows: Sequence[Sampled], ragged: bool) -> None:
    g, block = len(rows), max(1, r)
    proposed = [min(row.proposed, r) for row in rows]
    drafts = [
        [token if i < n else 0 for i, token in enumerate(row.drafts)]
        for row, n in zip(rows, proposed, strict=True)
    ]
    p = [
        [row.p[i] if i < n else [NAN] * VOCAB for i in range(block)]
        for row, n in zip(rows, proposed, strict=True)
    ]
    sampling = Sampling(
        target_probs=torch.tensor([row.q for row in rows]).view(g, r + 1, VOCAB),
        proposed=torch.tensor(proposed, dtype=torch.int64),
        greedy=torch.zeros(g, dtype=torch.bool),
        accept_uniforms=torch.tensor([row.accept for row in rows]).view(g, r),
        recover_uniforms=torch.tensor([[row.recover] * (r + 1) for row in rows]).view(g, r + 1),
        draft_uniforms=torch.empty(g, r + 1, block),
    )
    windows = [min(row.window, r + 1) if ragged else r + 1 for row in rows]
    found = cut(
        *reject(
            torch.tensor(drafts, dtype=torch.int64).view(g, r),
            torch.tensor(p).view(g, block, VOCAB),
            sampling,
            torch.tensor(windows, dtype=torch.int64) if ragged else None,
        )
    )
    assert found == [
        rejection(
            tokens,
            [row.p[i] if i < n else one_hot(0, VOCAB) for i in range(r)],
            row.q[:window],
            row.accept,
            row.recover,
        )
        for row, tokens, n, window in zip(rows, drafts, proposed, windows, strict=True)
    ]


FIRST, HALVES, LAST = [1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]


@pytest.mark.parametrize("kernels", REJECT)
@share(0.5)
@given(given_rows=st.integers(0, 3).flatmap(sampled_rows), ragged=st.booleans())
@example(given_rows=(2, []), ragged=False)  # an empty batch
@example(
    given_rows=(1, [Sampled([3], [HALVES], [HALVES, LAST], [0.25])]), ragged=False
)  # p = q = 0
@example(given_rows=(1, [Sampled([0], [FIRST], [HALVES, LAST], [0.5])]), ragged=False)  # u p = q
@example(given_rows=(1, [Sampled([0], [HALVES], [HALVES, LAST], [1.0])]), ragged=False)  # no mass
@example(
    given_rows=(1, [Sampled([0], [FIRST], [FIRST, LAST], [0.5], 1.0)]), ragged=False
)  # all kept
@example(given_rows=(0, [Sampled([], [], [LAST], [], 0.25)]), ragged=False)  # no drafts
@example(given_rows=(1, [Sampled([0], [HALVES], [LAST, FIRST], [0.25], window=1)]), ragged=True)
def test_rejection(kernels: str, given_rows: tuple[int, list[Sampled]], ragged: bool) -> None:
    """If this fails, the two sides draw different tokens from the same numbers."""
    check_reject(REJECT[kernels], *given_rows, ragged)


# ---- what turns them red -------------------------------------------------------------------------


def keeps_one_less(drafts: Tensor, target: Tensor, windows: Tensor | None) -> Any:
    tokens, counts = STRICT["eager"](drafts, target, windows)
    return tokens, (counts - 1).clamp(min=1)


def accepts_at_equality(
    drafts: Tensor, probs: Tensor, sampling: Sampling, windows: Tensor | None
) -> Any:
    """u p <= q, by numbers that are smaller by less than any product can be."""
    nearer = sampling._replace(accept_uniforms=sampling.accept_uniforms - 2**-13)
    return REJECT["eager"](drafts, probs, nearer, windows)


KEPT: list[Row] = [([1], [1, 1], 2)]
EQUAL = [Sampled([0], [FIRST], [HALVES, LAST], [0.5])]


def test_an_operation_that_is_wrong_is_seen() -> None:
    """If this fails, a comparison above holds whatever the worker does."""
    check_strict(STRICT["eager"], 1, KEPT, False)
    with pytest.raises(AssertionError):
        check_strict(keeps_one_less, 1, KEPT, False)
    check_reject(REJECT["eager"], 1, EQUAL, False)
    with pytest.raises(AssertionError):
        check_reject(accepts_at_equality, 1, EQUAL, False)
