"""Confidence of the drafts about to be verified, on the device (section 14).

Nothing here waits for the device or has a shape that depends on values, so all of it can stand at
the head of a captured graph. Rows that nothing is known of are read from the neutral row S + 1:
they are selected by index, so that a NaN in a slot reaches nobody, its owner included.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from draftproof.gpu.constants import ramp


class History(NamedTuple):
    """The last confidences, by the number of the step that drafted them, modulo the depth.

    logits: float32 [depth, S + 2, K]; stamps: int64 [depth, S + 2].
    """

    logits: Tensor
    stamps: Tensor


def remember(history: History, logits: Tensor, stamps: Tensor, draft_seq: Tensor) -> None:
    """Keep what a step has drafted, in place; it is overwritten `depth` steps later.

    logits: float32 [S + 2, K]; stamps: int64 [S + 2]; draft_seq: int64 [], of that step.
    """
    place = (draft_seq % len(history.stamps)).reshape(1)
    history.logits.index_copy_(0, place, logits.unsqueeze(0))
    history.stamps.index_copy_(0, place, stamps.unsqueeze(0))


def recall(history: History, draft_seq: Tensor) -> tuple[Tensor, Tensor]:
    """Logits float32 [S + 2, K] and stamps int64 [S + 2] kept after the step `draft_seq`.

    draft_seq: int64 []. Where a newer step has taken its place, the stamps tell which rows are
    still those of the step asked for.
    """
    place = (draft_seq % len(history.stamps)).reshape(1)
    return history.logits[place].squeeze(0), history.stamps[place].squeeze(0)


def source_rows(logits: Tensor, stamps: Tensor, slots: Tensor, expected: Tensor) -> Tensor:
    """Where each generation's confidences stand: its own slot, or the neutral row; int64 [G].

    logits: float32 [S + 2, K]; stamps: int64 [S + 2]; slots: int64 [G], S for rows without one;
    expected: int64 [], the only stamp that counts, `draft_seq - 1` for the current drafts.
    """
    neutral = logits.shape[0] - 1
    usable = torch.isfinite(logits).all(1) & (stamps == expected)
    usable = usable & (ramp(neutral + 1, logits.device) < neutral - 1)
    return torch.where(usable[slots], slots, neutral)


def calibrated(logits: Tensor, temperatures: Tensor | None = None) -> Tensor:
    """c = sigmoid(logit / T), float32 of the logits' shape.

    logits: float32 [..., K]; temperatures: float32 [K], None: all 1. Applied to the whole table
    of slots, neutral row included: its 30.0 is a logit like any other.
    """
    return torch.sigmoid(logits if temperatures is None else logits / temperatures)


def survival(confidences: Tensor, real: Tensor | int) -> Tensor:
    """Running products along each row, float32 [G, K]; 0 for rows from `real` on.

    confidences: float32 [G, K]; real: int64 [] or a number. One multiplication after the other:
    `cumprod` accumulates in double on a CPU and in any order on a GPU.
    """
    products = list(confidences.unbind(1))
    for k in range(1, len(products)):
        products[k] = products[k - 1] * products[k]
    is_real = ramp(confidences.shape[0], confidences.device) < real
    return torch.where(is_real.unsqueeze(1), torch.stack(products, 1), 0)
