"""Ragged steps: offsets, packing and padding (section 14). Windows count the anchor.

The device functions have shapes that the host knows: G rows, T tokens, and `widest`, the largest
window. T is the bucket of a captured graph, or the sum that an eager engine knows anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor
from torch.nn.functional import pad

from draftproof.gpu.constants import ramp


def qo_indptr(windows: Tensor) -> Tensor:
    """Exclusive prefix sums, int64 [G + 1]; windows: int64 [G]."""
    return pad(windows.cumsum(0), (1, 0))


def unpack_index(windows: Tensor, total: Tensor | int, widest: int) -> Tensor:
    """Of each place in each row its packed token, int64 [G, widest].

    total: T, at least 1, int64 [1] or a number. Places behind the window get a token that is there,
    but not theirs.
    """
    index = qo_indptr(windows)[:-1].unsqueeze(1) + ramp(widest, windows.device)
    return index.clamp(max=total - 1)


def unpack(packed: Tensor, windows: Tensor, widest: int, fill: int | float) -> Tensor:
    """Scatter back: [T, ...] to [G, widest, ...], `fill` behind the windows (int64 [G])."""
    if not packed.shape[0]:
        return packed.new_full((windows.shape[0], widest, *packed.shape[1:]), fill)
    inside = ramp(widest, windows.device) < windows.unsqueeze(1)
    inside = inside.reshape(*inside.shape, *[1] * (packed.dim() - 1))
    return torch.where(inside, packed[unpack_index(windows, packed.shape[0], widest)], fill)


def fill_bucket(windows: Tensor, real: Tensor | int, bucket: int, widest: int) -> Tensor:
    """Windows that add up to `bucket`, int64 [G], rows from `real` on being padding.

    windows: int64 [G], those of padding rows are not looked at: they start at 1; real: int64 []
    or a number. Each round gives one token to every row that can grow, as long as there are any;
    real rows have all their rounds first. This cannot raise, so ask `bucket_fits` beforehand.
    """
    rounds = max(0, widest - 1)
    is_real = ramp(windows.shape[0], windows.device) < real
    start = torch.where(is_real, windows, 1)
    turn = ramp(rounds, windows.device).unsqueeze(1)
    grows = start + turn < widest
    offers = torch.stack([grows & is_real, grows & ~is_real])
    given = offers.flatten().cumsum(0) <= bucket - start.sum()
    return start + (offers & given.view_as(offers)).sum((0, 1))


def bucket_fits(tokens: int, real: int, rows: int, bucket: int, widest: int) -> bool:
    """Whether `rows` rows, of which `real` ones bring `tokens`, can be padded to the bucket."""
    return real <= rows and tokens + rows - real <= bucket <= rows * widest


def agreed_shape(
    loads: Sequence[tuple[int, int]], sizes: Sequence[int], buckets: Sequence[int], widest: int
) -> tuple[int, int] | None:
    """Captured rows and tokens for all ranks, from (real rows, tokens) of each; on the host.

    The smallest pair, rows first, that every rank can be padded to; None: nobody replays a graph.
    """
    fitting = (
        (rows, bucket)
        for rows, bucket in product(sizes, buckets)
        if all(bucket_fits(tokens, real, rows, bucket, widest) for real, tokens in loads)
    )
    return min(fitting, default=None)
