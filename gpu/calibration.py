"""Fitting the temperatures of sequential temperature scaling (section 14).

Done once, offline and on the host, so shapes may depend on the data. The expected calibration
error: 20 bins of equal width; in each the absolute difference of the sums of predictions and of
outcomes; their sum divided by the number of predictions.
"""

from __future__ import annotations

import torch
from torch import Tensor

BINS = 20


def grid() -> Tensor:
    """Temperatures from 1/4 to 8, eight to the octave, float64 [41]."""
    return torch.tensor([2 ** (i / 8) for i in range(-16, 25)], dtype=torch.float64)


def calibration_errors(predictions: Tensor, outcomes: Tensor) -> Tensor:
    """The error of each column, float64 [N]; predictions: float64 [M, N]; outcomes: bool [M]."""
    bins = (predictions * BINS).long().clamp(max=BINS - 1)
    gaps = predictions - outcomes.unsqueeze(1).double()
    sums = gaps.new_zeros(BINS, predictions.shape[1]).scatter_add_(0, bins, gaps)
    return sums.abs().sum(0) / max(1, predictions.shape[0])


def fit(logits: Tensor, verified: Tensor, accepted: Tensor) -> Tensor:
    """Temperatures, float64 [K], position by position, each with the earlier ones fixed.

    logits: float32 [M, K], of M verified blocks; verified, accepted: int64 [M], drafts in the
    window and drafts kept. A block counts at the positions that its window reached; one with a
    logit that is not finite counts nowhere. Among equals the temperature nearest to 1 wins.
    """
    known = torch.isfinite(logits).all(1)
    logits, verified, accepted = logits[known].double(), verified[known], accepted[known]
    choices = grid()
    choices = choices[torch.sort(choices.log().abs(), stable=True).indices]
    running = torch.ones(len(logits), dtype=torch.float64)
    chosen = torch.ones(logits.shape[1], dtype=torch.float64)
    for k in range(logits.shape[1]):
        confidence = torch.sigmoid(logits[:, k : k + 1] / choices).float().double()
        products = (running.unsqueeze(1) * confidence).float().double()
        reached = verified > k
        best = 0  # 1 comes first
        if reached.any():
            best = int(calibration_errors(products[reached], accepted[reached] > k).argmin())
        chosen[k], running = choices[best], products[:, best]
    return chosen
