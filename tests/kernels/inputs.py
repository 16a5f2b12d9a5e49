"""Generated inputs of kernels."""

from __future__ import annotations

import torch
from device import DEVICE
from torch import Tensor

from draftproof.gpu.operations import Counters
from draftproof.gpu.rejection import Sampling

NAN = float("nan")
DRAFT_SIZES = {
    "block": 3, "window": 4, "stages": 2, "vocab": 30, "hidden": 16, "captured_layers": 2,
    "streams": 2, "heads": 2, "head_dim": 8, "rope_head_dim": 4, "q_rank": 6, "groups": 1,
    "o_rank": 5, "ffn": 10, "markov_rank": 7, "noise_token": 3,
}  # fmt: skip
"""A draft model as small as can be."""


class Numbers:
    """Random tensors from a seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator(DEVICE).manual_seed(seed)

    def ints(self, low: int, high: int, *shape: int) -> Tensor:
        """int64, low … high inclusive."""
        return torch.randint(low, high + 1, shape, generator=self.generator)

    def flags(self, *shape: int) -> Tensor:
        return self.ints(0, 1, *shape).bool()

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator)

    def uniform(self, *shape: int) -> Tensor:
        """Multiples of 1/8 in (0, 1], so that products and thresholds are often met exactly."""
        return self.ints(1, 8, *shape) / 8

    def law(self, *shape: int) -> Tensor:
        """Laws over the last dimension in sixteenths, about half of their masses 0."""
        vocab = shape[-1]
        ends = self.ints(0, 16, *shape[:-1], vocab - 1).sort(-1).values
        ends = torch.where(self.flags(*ends.shape[:-1], 1), ends // 8 * 8, ends)
        edge = ends.new_full((*shape[:-1], 1), 16)
        return torch.cat([ends, edge], -1).diff(dim=-1, prepend=0 * edge) / 16

    def slots(self, count: int, scratch: int) -> Tensor:
        """Different slots, some of them replaced by the scratch row; int64 [count]."""
        chosen = torch.randperm(scratch, generator=self.generator)[:count]
        return torch.where(self.ints(0, 3, count) == 0, scratch, chosen)

    def counters(self, rows: int, width: int) -> Counters:
        """Some slots fresh, some with a young window, some with a full one."""
        slots = rows + 3
        ctx_len = self.ints(0, 40, slots + 1)
        valid_len = self.ints(0, width, slots + 1).minimum(ctx_len)
        positions = self.ints(0, 1000, rows)
        state = ctx_len, valid_len, self.flags(slots + 1)
        return Counters(*state, self.slots(rows, slots), positions, width)

    def sampling(self, rows: int, r: int, block: int, vocab: int) -> Sampling:
        return Sampling(
            target_probs=self.law(rows, r + 1, vocab),
            proposed=self.ints(0, r, rows),
            greedy=self.flags(rows),
            accept_uniforms=self.uniform(rows, r),
            recover_uniforms=self.uniform(rows, r + 1),
            draft_uniforms=self.uniform(rows, r + 1, block),
        )


def same(found: Tensor, expected: Tensor) -> None:
    """Equal bit by bit, NaN to NaN."""
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if found.is_floating_point():
        found, expected = found.float().nan_to_num(nan=-9e9), expected.float().nan_to_num(nan=-9e9)
    assert torch.equal(found, expected), (found - expected).nonzero().tolist()[:5]


def cloned(counters: Counters) -> Counters:
    """The same numbers in memory of their own."""
    ctx_len, valid_len, initialized = (tensor.clone() for tensor in counters[:3])
    return counters._replace(ctx_len=ctx_len, valid_len=valid_len, initialized=initialized)


def same_counters(found: Counters, expected: Counters) -> None:
    """Equal but for the scratch row, where padding rows race."""
    for mine, theirs in zip(found[:3], expected[:3], strict=True):
        same(mine[:-1], theirs[:-1])
    assert 0 <= int(found.ctx_len[-1]) <= 40
    assert 0 <= int(found.valid_len[-1]) <= found.width
