"""Named arrays that go to the device together, in one copy, always to the same addresses.

A CUDA graph reads where it read when it was captured, so what a step brings along must lie at the
same place in every step. The host writes into a staging area of the same layout, and one copy
takes it over. On a GPU there are two areas in page-locked memory, so that the host can write the
next step while the copy of the last one is still under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

ALIGNMENT = 16
"""Bytes; where each array begins is a multiple of it."""

WORD = 8
"""Bytes. Copies are made in words: of many small elements torch makes work for threads."""

POISON_INTEGER = 2**62
POISON_BYTE = -128
"""What nobody wrote in this step: an index out of every range, and no component of a hidden row.
Unwritten floats are NaN."""

_NUMPY: dict[torch.dtype, tuple[Any, int | float]] = {
    torch.int64: (np.int64, POISON_INTEGER),
    torch.float32: (np.float32, float("nan")),
    torch.int8: (np.int8, POISON_BYTE),
}


class Field(NamedTuple):
    """One array: it has room for so many numbers of a dtype, int64, float32 or int8.

    start: what they are at first, unless poisoned.
    """

    name: str
    dtype: torch.dtype
    room: int
    start: int = 0


class StaticArrays:
    """The arrays, on the device, and the host's staging area.

    Writing begins with `begin` and ends with `send`; in between `host[name][:n] = ...`. What is
    not written in a step is poison after it if poisoned, else what it was before.
    """

    def __init__(self, fields: Sequence[Field], device: torch.device, poisoned: bool) -> None:
        places, size = {}, 0
        for name, dtype, room, _ in fields:
            end = size + room * dtype.itemsize
            places[name] = slice(size, end), dtype
            size = -(-end // ALIGNMENT) * ALIGNMENT
        on_gpu = device.type == "cuda"
        self._places = places
        self._areas = [_Area(size, places, pinned=on_gpu) for _ in range(2 if on_gpu else 1)]
        self._words = torch.empty(size // WORD, dtype=torch.int64, device=device)
        whole = self._words.view(torch.uint8)
        self.device = {name: whole[place].view(dtype) for name, (place, dtype) in places.items()}
        for area in self._areas:
            for name, dtype, _, start in fields:
                area.arrays[name][:] = _NUMPY[dtype][1] if poisoned else start
        self._poison = self._areas[0].bytes.copy() if poisoned else None
        self.begin()
        self.send(fields[-1].name, fields[-1].room)

    def begin(self) -> None:
        """Start to write a step, in an area whose last copy is over."""
        self._areas.append(self._areas.pop(0))
        area = self._areas[0]
        area.wait()
        self.host = area.arrays
        if self._poison is not None:
            area.bytes[:] = self._poison

    def send(self, last: str, count: int) -> None:
        """Copy to the device, in the order of the fields, up to `count` numbers of array `last`."""
        place, dtype = self._places[last]
        end = -(-(place.start + count * dtype.itemsize) // WORD)
        if self._poison is not None:
            end = len(self._words)
        area = self._areas[0]
        self._words[:end].copy_(area.words[:end], non_blocking=True)
        area.sent()


class _Area:
    """The same memory as a tensor, as numpy bytes, and as named arrays."""

    def __init__(
        self, size: int, places: dict[str, tuple[slice, torch.dtype]], pinned: bool
    ) -> None:
        self.words = torch.zeros(size // WORD, dtype=torch.int64, pin_memory=pinned)
        self.bytes: Any = self.words.numpy().view(np.uint8)
        self.arrays: dict[str, Any] = {
            name: self.bytes[place].view(_NUMPY[dtype][0])
            for name, (place, dtype) in places.items()
        }
        self._copied: Any = None
        if pinned:
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch's own

    def sent(self) -> None:
        """A copy from here has been asked for."""
        if self._copied is not None:
            self._copied.record()

    def wait(self) -> None:
        """Until the last copy from here is over."""
        if self._copied is not None:
            self._copied.synchronize()
