"""Strict acceptance on examples worked out by hand (semantics, section 6), eager and Triton."""

import pytest
import torch
from kernels.twins import STRICT

pytestmark = [pytest.mark.interpreted, pytest.mark.parametrize("kernels", STRICT)]


def accept(
    kernels: str,
    drafts: list[list[int]],
    target: list[list[int]],
    windows: list[int] | None = None,
) -> tuple[list[list[int]], list[int]]:
    limits = None if windows is None else torch.tensor(windows)
    tokens, counts = STRICT[kernels](torch.tensor(drafts), torch.tensor(target), limits)
    return tokens.tolist(), counts.tolist()


def test_the_longest_matching_prefix_and_the_targets_next_token(kernels: str) -> None:
    """If this fails, a draft after a mismatch counts, or the bonus comes from the wrong row."""
    tokens, counts = accept(
        kernels, [[1, 2, 3], [1, 9, 3], [9, 2, 3]], [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]]
    )
    assert counts == [4, 2, 1]
    assert tokens == [[1, 2, 3, 4], [1, 2, 0, 0], [1, 0, 0, 0]]


def test_without_drafts_the_target_gives_one_token(kernels: str) -> None:
    """If this fails, a zero-draft step does not advance."""
    tokens, counts = STRICT[kernels](
        torch.empty(2, 0, dtype=torch.int64), torch.tensor([[5], [6]]), None
    )
    assert (tokens.tolist(), counts.tolist()) == ([[5], [6]], [1, 1])


def test_the_pinned_ragged_example(kernels: str) -> None:
    """If this fails, positions at or past a verify window can match."""
    target = [[1, 100, 1, 9], [2, 8, 4, 101]]
    tokens, counts = accept(kernels, [[1, 9, 9], [2, 3, 4]], target, [2, 4])
    assert counts == [2, 2]
    assert tokens == [[1, 100, 0, 0], [2, 8, 0, 0]]


def test_full_windows_are_the_uniform_path(kernels: str) -> None:
    """If this fails, a ragged step with full windows differs from the same uniform step."""
    drafts, target = [[1, 2], [3, 9]], [[1, 2, 7], [3, 4, 5]]
    assert accept(kernels, drafts, target, [3, 3]) == accept(kernels, drafts, target)


def test_a_window_of_one_verifies_no_draft(kernels: str) -> None:
    """If this fails, a draft outside the window is accepted because it happens to match."""
    assert accept(kernels, [[1, 1]], [[1, 1, 1]], [1]) == ([[1, 0, 0]], [1])


def test_no_rows(kernels: str) -> None:
    """If this fails, an empty batch needs a special case."""
    tokens, counts = STRICT[kernels](
        torch.empty(0, 3, dtype=torch.int64), torch.empty(0, 4, dtype=torch.int64), None
    )
    assert (tokens.shape, counts.shape) == ((0, 4), (0,))
