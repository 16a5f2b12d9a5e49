"""Showing the worker's state to the harness (sections 2 and 18)."""

from __future__ import annotations

import struct
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from draftproof.gpu.inputs import int_tensor
from draftproof.gpu.memory import Memory
from draftproof.gpu.slots import SlotMap
from draftproof.reference.vocabulary import ROW_COMPONENTS, WorkerState

POISON = -1
"""How a NaN in a visible frame is reported; no component of a hidden row is negative."""

MOST_ROWS = 2**16
"""Rows that are remembered between calls of `show`."""


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
    )


def visible_windows(windows: Tensor, ctx_len: list[int], valid_len: list[int]) -> list[Any]:
    """Per slot 0 .. S - 1: [stages][valid][D], oldest visible frame first.

    windows: [S + 1, stages, W, D]; ctx_len, valid_len: [S + 1], on the host. Equal rows are one
    list, here and in later calls: look, but do not write.
    """
    width, used = windows.shape[2], [s for s, valid in enumerate(valid_len[:-1]) if valid]
    shown: list[Any] = [[[] for _ in range(windows.shape[1])] for _ in valid_len[:-1]]
    names = _names(windows[int_tensor(used, windows.device)])
    row = _rows.trimmed().__getitem__
    for s, stages in zip(used, names, strict=True):
        oldest = (ctx_len[s] - valid_len[s] + 1) % width
        end = oldest + valid_len[s]
        shown[s] = [
            list(map(row, (*ring[oldest:end], *ring[: max(0, end - width)]))) for ring in stages
        ]
    return shown


def _names(rows: Tensor) -> list[Any]:
    """Rows [N, stages, W, D] as [N][stages][W] integers of eight packed components each."""
    packed = pad(rows.nan_to_num(nan=POISON).to(torch.int8), (0, 8 - ROW_COMPONENTS))
    names: list[Any] = packed.view(torch.int64).squeeze(3).tolist()
    return names


class _Rows(dict[int, list[int]]):
    """Hidden rows by name, unpacked once: few lists are made, so garbage is rarely collected."""

    def __missing__(self, name: int) -> list[int]:
        row = list(struct.unpack(f"{ROW_COMPONENTS}b", struct.pack("q", name)[:ROW_COMPONENTS]))
        self[name] = row
        return row

    def trimmed(self) -> _Rows:
        """Itself, emptied when it has grown beyond what a window or two can hold."""
        if len(self) > MOST_ROWS:
            self.clear()
        return self


_rows = _Rows()
