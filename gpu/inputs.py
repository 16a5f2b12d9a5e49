"""The one place where a batch's arrays go to the device.

Everything is copied: the harness overwrites the arrays after the step, and `torch.frombuffer`
shares their memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from draftproof.gpu.checks import generation_rows, uses_rejection
from draftproof.gpu.constants import ramp
from draftproof.gpu.rejection import Sampling
from draftproof.reference.vocabulary import ROW_COMPONENTS, Batch, Config


class Inputs(NamedTuple):
    """A batch on the device; rows of generations are unpacked to R = 1 + r each.

    context_tokens: int64 [C]; context_hidden: windows' dtype [context token rows, D];
    drafts: int64 [G, r]; target: int64 [G, R]; hidden: windows' dtype [G, R, D]; positions: int64
    [G]; context_seq_slots: int64 [C]; generation_seq_slots: int64 [G]; windows: int64 [G], None
    unless ragged; sampling: None unless this step uses rejection sampling. Of a ragged
    generation, rows past its window repeat other rows of the batch.
    """

    context_tokens: Tensor
    context_hidden: Tensor
    drafts: Tensor
    target: Tensor
    hidden: Tensor
    positions: Tensor
    context_seq_slots: Tensor
    generation_seq_slots: Tensor
    windows: Tensor | None
    sampling: Sampling | None


def upload(batch: Batch, config: Config, device: torch.device, dtype: torch.dtype) -> Inputs:
    """Copy a checked batch to the device; dtype: that of the windows."""
    contexts, generations, r = batch.contexts, batch.generations, batch.draft_len
    first = sum(row.length for row in contexts)
    total = first + generation_rows(batch)
    tokens = to_device(batch.target_tokens, torch.int64, device)
    hidden = to_device(batch.hidden, torch.int8, device).to(dtype).view(total, ROW_COMPONENTS)
    unpack = _Unpacking(batch, device)
    return Inputs(
        context_tokens=tokens[: len(contexts)],
        context_hidden=hidden[:first],
        drafts=to_device(batch.drafts, torch.int64, device).view(len(generations), r),
        target=unpack(tokens[len(contexts) :]),
        hidden=unpack(hidden[first:]),
        positions=int_tensor([row.position for row in generations], device),
        context_seq_slots=int_tensor([row.seq_slot for row in contexts], device),
        generation_seq_slots=int_tensor([row.seq_slot for row in generations], device),
        windows=unpack.windows,
        sampling=_sampling(batch, config, unpack, device),
    )


def to_device(
    buffer: array[int] | array[float] | None, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """A flat copy on the device of a buffer whose items are of this dtype."""
    if not buffer:
        return torch.empty(0, dtype=dtype, device=device)
    return torch.frombuffer(buffer, dtype=dtype).to(device, copy=True)


def int_tensor(values: Sequence[int], device: torch.device) -> Tensor:
    """int64 [len(values)]; through an array, since `torch.tensor` of a list is slow."""
    return to_device(array("q", values), torch.int64, device)


class _Unpacking:
    """Turns packed generation rows into [G, R, ...] (section 6, ragged)."""

    def __init__(self, batch: Batch, device: torch.device) -> None:
        self.shape = (len(batch.generations), 1 + batch.draft_len)
        self.windows: Tensor | None = None
        if batch.verify_lens is not None:
            ends = list(accumulate(batch.verify_lens, initial=0))
            self.windows = int_tensor(batch.verify_lens, device)
            starts = int_tensor(ends[:-1], device).unsqueeze(1)
            self.index = (starts + ramp(self.shape[1], device)).clamp(max=ends[-1] - 1)

    def __call__(self, packed: Tensor) -> Tensor:
        if self.windows is None:
            return packed.view(*self.shape, *packed.shape[1:])
        return packed[self.index]


def _sampling(
    batch: Batch, config: Config, unpack: _Unpacking, device: torch.device
) -> Sampling | None:
    if not uses_rejection(batch, config):
        return None
    rows = batch.generations
    probs = to_device(batch.target_probs, torch.float32, device).view(-1, config.vocab_size)
    accept = to_device(batch.accept_uniforms, torch.float32, device)
    draft = to_device(batch.draft_uniforms, torch.float32, device)
    return Sampling(
        target_probs=unpack(probs),
        proposed=int_tensor([row.proposed for row in rows], device),
        greedy=int_tensor([row.greedy for row in rows], device).bool(),
        accept_uniforms=accept.view(len(rows), batch.draft_len),
        recover_uniforms=to_device(batch.recover_uniforms, torch.float32, device),
        draft_uniforms=draft.view(len(rows), config.max_draft_len),
    )
