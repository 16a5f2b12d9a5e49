"""Lengths that change between steps, and where an output ends (semantics, sections 9 and 15)."""

from __future__ import annotations

from collections.abc import Sequence

PLACEHOLDER = 0


def fit_drafts(proposed: Sequence[int], draft_len: int) -> list[int]:
    """Cut drafts to the step that consumes them, or fill up with placeholders."""
    kept = list(proposed[:draft_len])
    return kept + [PLACEHOLDER] * (draft_len - len(kept))


def deliverable(tokens: list[int], stop_token: int | None, room: int) -> list[int]:
    """The tokens of an accepted run that are really emitted.

    Up to and including the first stop token, and at most `room` of them; the rest is dropped.
    """
    kept = tokens[:room]
    if stop_token in kept:
        return kept[: kept.index(stop_token) + 1]
    return kept
