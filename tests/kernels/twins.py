"""Kernels behind the signatures of their eager twins, for examples worked out by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.gpu.acceptance import strict
from draftproof.gpu.advance import advance
from draftproof.gpu.kernels import acceptance, rejection, windows
from draftproof.gpu.operations import Accepted, Counters
from draftproof.gpu.rejection import Sampling, reject
from draftproof.gpu.window import write_accepted


def strict_by_kernel(
    drafts: Tensor, target: Tensor, limits: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`gpu.acceptance.strict`."""
    return acceptance.verify(drafts, target, limits, _some_counters(len(drafts)))[:2]


def reject_by_kernel(
    drafts: Tensor, draft_probs: Tensor, sampling: Sampling, limits: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`gpu.rejection.reject`."""
    slots, counters = torch.arange(len(drafts)), _some_counters(len(drafts))
    return rejection.reject(drafts, draft_probs, slots, sampling, limits, counters)[:2]


def write_by_kernel(
    cells: Tensor, slots: Tensor, old: Tensor, counts: Tensor, rows: Tensor
) -> None:
    """`gpu.window.write_accepted`, of rows for one stage, which is 0."""
    assert rows.shape[2] == cells.shape[1] == 1
    windows.write_windows(cells, None, Accepted(rows.squeeze(2), slots, old, counts))


def advance_by_kernel(
    ctx_len: Tensor,
    valid_len: Tensor,
    initialized: Tensor,
    slots: Tensor,
    positions: Tensor,
    counts: Tensor,
    width: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """`gpu.advance.advance`, by drafts of which as many are accepted."""
    r = int(counts.max()) - 1
    drafts = torch.zeros(len(counts), r, dtype=torch.int64)
    target = (torch.arange(r + 1) >= counts.unsqueeze(1) - 1).to(torch.int64)
    counters = Counters(ctx_len, valid_len, initialized, slots, positions, width)
    verified = acceptance.verify(drafts, target, None, counters)
    assert verified.counts.equal(counts)
    return verified.old, verified.start, verified.valid


STRICT = {"eager": strict, "triton": strict_by_kernel}
REJECT = {"eager": reject, "triton": reject_by_kernel}
WRITE = {"eager": write_accepted, "triton": write_by_kernel}
ADVANCE = {"eager": advance, "triton": advance_by_kernel}


def _some_counters(rows: int) -> Counters:
    zeros = torch.zeros(rows + 1, dtype=torch.int64)
    flags, slots = torch.zeros(rows + 1, dtype=torch.bool), torch.arange(rows)
    return Counters(zeros, zeros.clone(), flags, slots, torch.zeros_like(slots), 4)
