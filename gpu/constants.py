"""Small constant tensors, made once per device and never written to."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor


@cache
def ramp(length: int, device: torch.device) -> Tensor:
    """0, 1, … length - 1 as int64 [length]."""
    return torch.arange(length, device=device)


def one_hot(tokens: Tensor, vocab: int) -> Tensor:
    """float32 [..., vocab]: 1 at the token, 0 elsewhere; tokens: int64 [...].

    Unlike `torch.nn.functional.one_hot` it never looks at the values on the host.
    """
    hits = tokens.unsqueeze(-1) == ramp(vocab, tokens.device)
    return hits.to(torch.float32)
