"""Strict acceptance, uniform and ragged (section 6).

Short names in all docstrings of this folder are those of `reference/vocabulary.py`; R = 1 + r
rows belong to a generation. Nothing here synchronises with the host.
"""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.gpu.constants import ramp


def strict(drafts: Tensor, target: Tensor, windows: Tensor | None) -> tuple[Tensor, Tensor]:
    """Accept the longest prefix of drafts that the target would have produced itself.

    drafts: int64 [G, r]; target: int64 [G, R], the target's token per row (rows at and past the
    window may hold anything); windows: int64 [G], anchor included, 1 .. R; None: all full.
    Returns new_tokens int64 [G, R], 0 from n on, and n = accepted + 1, int64 [G].
    """
    match = drafts == target[:, : drafts.shape[1]]
    counts = accepted_count(match, windows) + 1
    kept = ramp(target.shape[1], target.device) < counts.unsqueeze(1)
    return torch.where(kept, target, 0), counts


def accepted_count(match: Tensor, windows: Tensor | None) -> Tensor:
    """Length of the leading run of True inside the window, int64 [G].

    match: bool [G, r]; windows: int64 [G] or None. Draft i sits at position i + 1 of the window,
    so a window of w verifies w - 1 drafts, and a window of 1 none.
    """
    if windows is not None:
        match = match & (ramp(match.shape[1], match.device) + 1 < windows.unsqueeze(1))
    return match.cumprod(1).sum(1)
