"""Showing the worker's state to the harness (sections 2 and 18)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from draftproof.gpu.inputs import int_tensor
from draftproof.gpu.memory import Memory
from draftproof.gpu.slots import SlotMap
from draftproof.reference.vocabulary import ROW_COMPONENTS, Frames, WorkerState

POISON = -1
"""How a NaN in a visible frame is reported; no component of a hidden row is negative."""


def show(memory: Memory, slots: SlotMap, rows: int, draft_seq: int) -> WorkerState:
    """A copy of the state, which later steps do not change; rows: B of the last batch."""
    ctx_len, valid_len, initialized = torch.stack(
        [memory.ctx_len, memory.valid_len, memory.initialized.to(torch.int64)]
    ).tolist()
    return WorkerState(
        slots={request_id: owner.slot for request_id, owner in slots.owners.items()},
        free_slots=list(slots.free),
        batch_to_slot=memory.batch_to_slot[:rows].tolist(),
        ctx_len=ctx_len,
        valid_len=valid_len,
        initialized=[bool(flag) for flag in initialized],
        windows=visible_windows(memory.windows, ctx_len, valid_len),
        confidence_logits=memory.confidence_logits.tolist(),
        confidence_stamp=memory.confidence_stamp.tolist(),
        draft_seq=draft_seq,
        draft_probs=None if memory.draft_probs is None else memory.draft_probs[:-1].clone(),
        token_counts=None if memory.token_counts is None else memory.token_counts[:-1].tolist(),
        prompt_seen=None if memory.prompt_seen is None else memory.prompt_seen[:-1].int().tolist(),
    )


def visible_windows(windows: Tensor, ctx_len: list[int], valid_len: list[int]) -> list[Any]:
    """Per slot 0 .. S - 1: the visible frames of each stage, oldest first.

    windows: [S + 1, stages, W, D]; ctx_len, valid_len: [S + 1], on the host.
    """
    stages, width = windows.shape[1:3]
    used = [s for s, valid in enumerate(valid_len[:-1]) if valid]
    shown: list[Any] = [[Frames()] * stages for _ in valid_len[:-1]]
    rings = _rings(windows[int_tensor(used, windows.device)])
    for n, s in enumerate(used):
        oldest = (ctx_len[s] - valid_len[s] + 1) % width
        part = slice(oldest * ROW_COMPONENTS, (oldest + valid_len[s]) * ROW_COMPONENTS)
        shown[s] = [Frames((ring + ring)[part]) for ring in rings[n * stages : (n + 1) * stages]]
    return shown


def _rings(rows: Tensor) -> list[bytes]:
    """Rows [N, stages, W, D] as N * stages strings of W * D signed bytes."""
    packed = rows.nan_to_num(nan=POISON).to(torch.int8).cpu().numpy().tobytes()
    size = rows.shape[2] * ROW_COMPONENTS
    return [packed[i : i + size] for i in range(0, len(packed), size)]
