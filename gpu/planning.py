"""The verify windows of a planned step, on the device (section 14).

Nothing here waits for the device, and no shape depends on a value, so all of it could stand at the
head of a captured graph; `tests/planned` looks for what could not. Only the worker's `plan`, which
hands the windows to the host that packs the step by them, waits, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from draftproof.gpu.confidence import source_rows, survival
from draftproof.gpu.ragged import fill_bucket
from draftproof.gpu.scheduler import (
    Table,
    configured_table,
    limits_of,
    paid,
    stopped_early,
    verify_windows,
)
from draftproof.gpu.static import Field, StaticArrays
from draftproof.reference.vocabulary import Batch, BatchError, Config


class Ask(NamedTuple):
    """What a plan is made from, on the device.

    confidences: float32 [S + 2, K]; slots: int64 [G], S for rows that stand for nobody; expected:
    int64 [], the stamp of the drafts to verify; budget, real: int64 []; bucket: the tokens to hit,
    or None, a number of the host's, as it selects the graph.
    """

    confidences: Tensor
    slots: Tensor
    expected: Tensor
    budget: Tensor
    real: Tensor
    bucket: int | None


class Planner:
    """Takes what a plan needs to the device, always to the same addresses, and makes it there."""

    def __init__(self, config: Config, device: torch.device) -> None:
        rows = config.max_num_requests
        self.config = config
        self.table = rows + 2, config.max_draft_len
        fields = [
            Field("expected", torch.int64, 1),
            Field("budget", torch.int64, 1),
            Field("real", torch.int64, 1),
            Field("slots", torch.int64, rows, start=rows),
            Field("confidences", torch.float32, self.table[0] * self.table[1]),
        ]
        self.arrays = StaticArrays(fields, device, config.poison)
        self.rates: Table | None = None
        if config.early_stopping and (table := configured_table(config)) is not None:
            self.rates = Table(*(column.to(device) for column in table))

    def write(self, batch: Batch, slots: Sequence[int], real: int, draft_seq: int) -> None:
        """Take a planned step to the device; slots: one per generation. Raises BatchError."""
        size = self.table[0] * self.table[1]
        if batch.confidences is None or len(batch.confidences) != size:
            raise BatchError(f"a plan needs {size} confidences")
        self.arrays.begin()
        host = self.arrays.host
        host["expected"][0] = draft_seq - 1
        host["budget"][0] = batch.verify_budget
        host["real"][0] = real
        host["slots"][: len(slots)] = slots
        host["confidences"][:size] = batch.confidences
        self.arrays.send("confidences", size)

    def read(self, batch: Batch) -> Ask:
        """What was written last; looks at nothing of the batch but G and the bucket."""
        arrays = self.arrays.device
        return Ask(
            confidences=arrays["confidences"].view(self.table),
            slots=arrays["slots"][: len(batch.generations)],
            expected=arrays["expected"].squeeze(0),
            budget=arrays["budget"].squeeze(0),
            real=arrays["real"].squeeze(0),
            bucket=batch.verify_bucket,
        )

    def windows(self, ask: Ask, stamps: Tensor) -> Tensor:
        """The windows, anchor included, int64 [G]; stamps: int64 [S + 2]."""
        rows = source_rows(ask.confidences, stamps, ask.slots, ask.expected)
        survivals = survival(ask.confidences[rows], ask.real)
        limits = limits_of(self.config)
        budget = ask.budget
        if self.rates is not None:
            values = paid(survivals, self.rates, limits, ask.real)
            budget = torch.minimum(budget, self._worth(values))
        windows = verify_windows(survivals, budget, limits, ask.real)
        if ask.bucket is None:
            return windows
        return self._filled(windows, ask.real, ask.bucket, limits.most + 1)

    # What planted defects replace

    def _worth(self, values: Tensor) -> Tensor:
        """How many drafts are worth their tokens, int64 []; values: as `paid` says."""
        return stopped_early(values)

    def _filled(self, windows: Tensor, real: Tensor, bucket: int, widest: int) -> Tensor:
        """The windows that add up to the bucket, int64 [G]."""
        return fill_bucket(windows, real, bucket, widest)
