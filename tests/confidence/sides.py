"""The two implementations of section 14 behind one signature in plain lists.

A rule (`rules.py`) is a function of a side and a case, so that it holds for the reference, for the
torch implementation, and fails for a side with a planted mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.gpu import calibration as torch_calibration
from draftproof.gpu import confidence as torch_confidence
from draftproof.gpu import ragged as torch_ragged
from draftproof.gpu import scheduler as torch_scheduler
from draftproof.reference import calibration, confidence, ragged, scheduler
from draftproof.reference.vocabulary import BatchError

torch.set_num_threads(1)

Matrix = Sequence[Sequence[float]]
Table = Sequence[tuple[int, float]]
Span = tuple[int, int]
"""Fewest and most draft positions of a request."""


@dataclass(frozen=True, repr=False)
class Side:
    """Names and meanings are those of `reference/`; `real` counts the rows that are requests."""

    name: str
    source_rows: Callable[[Matrix, Sequence[int], Sequence[int], int], list[int]]
    calibrated: Callable[[Matrix, Sequence[float] | None], list[list[float]]]
    survival: Callable[[Matrix, int], list[list[float]]]
    windows: Callable[[Matrix, int, Span, int], list[int]]
    prefix_schedule: Callable[[Matrix, Table], list[int]]
    stopped_early: Callable[[Matrix, int, Table, Span], int]
    best_budget: Callable[[Matrix, Table, Span], int]
    qo_indptr: Callable[[Sequence[int]], list[int]]
    pack: Callable[[Sequence[Sequence[int]], Sequence[int]], list[int]]
    unpack: Callable[[Sequence[int], Sequence[int], int], list[list[int]]]
    fill_bucket: Callable[[Sequence[int], int, int, int], list[int]]
    agreed_shape: Callable[
        [Sequence[tuple[int, int]], Sequence[int], Sequence[int], int], tuple[int, int] | None
    ]
    fit: Callable[[Sequence[calibration.Outcome], int], list[float]]

    def __repr__(self) -> str:
        return self.name


# ---- reference/ ----------------------------------------------------------------------------------


def _windows(survivals: Matrix, budget: int, span: Span, real: int) -> list[int]:
    found = scheduler.verify_windows(survivals, budget, scheduler.Limits(*span), real)
    assert found is not None
    return found


def _stopped_early(survivals: Matrix, real: int, table: Table, span: Span) -> int:
    rate, limits = scheduler.rate_of_table(table), scheduler.Limits(*span)
    return scheduler.stopped_early(survivals[:real], rate, limits)


REFERENCE = Side(
    name="reference",
    source_rows=confidence.source_rows,
    calibrated=confidence.calibrated,
    survival=confidence.survival,
    windows=_windows,
    prefix_schedule=lambda s, table: scheduler.prefix_schedule(s, scheduler.rate_of_table(table)),
    stopped_early=_stopped_early,
    best_budget=lambda s, table, span: scheduler.best_budget(
        s, scheduler.rate_of_table(table), scheduler.Limits(*span)
    ),
    qo_indptr=ragged.qo_indptr,
    pack=ragged.pack,
    unpack=lambda packed, windows, width: ragged.unpack(packed, windows, width, -1),
    fill_bucket=ragged.fill_bucket,
    agreed_shape=lambda loads, sizes, buckets, widest: ragged.agreed_shape(
        [ragged.Load(*load) for load in loads], sizes, buckets, widest
    ),
    fit=calibration.fit,
)


# ---- gpu/ ----------------------------------------------------------------------------------------


def floats(rows: Matrix) -> Tensor:
    """float32 [rows, K]; an empty batch has K = 3."""
    return torch.tensor(rows, dtype=torch.float32).reshape(len(rows), len(rows[0]) if rows else 3)


def ints(values: Sequence[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)


def _listed(tensor: Tensor) -> Any:
    return tensor.tolist()


def _torch_sources(
    logits: Matrix, stamps: Sequence[int], slots: Sequence[int], expected: int
) -> list[int]:
    args = floats(logits), ints(stamps), ints(slots), torch.tensor(expected)
    return [int(row) for row in torch_confidence.source_rows(*args)]


def _torch_calibrated(logits: Matrix, temperatures: Sequence[float] | None) -> list[list[float]]:
    scales = None if temperatures is None else torch.tensor(temperatures, dtype=torch.float32)
    rows: list[list[float]] = _listed(torch_confidence.calibrated(floats(logits), scales))
    return rows


def _torch_survival(rows: Matrix, real: int) -> list[list[float]]:
    products: list[list[float]] = _listed(
        torch_confidence.survival(floats(rows), torch.tensor(real))
    )
    return products


def _torch_windows(survivals: Matrix, budget: int, span: Span, real: int) -> list[int]:
    limits = torch_scheduler.Limits(*span)
    found = torch_scheduler.verify_windows(
        floats(survivals), torch.tensor(budget), limits, torch.tensor(real)
    )
    return [int(window) for window in found]


def _torch_stopped(survivals: Matrix, real: int, table: Table, span: Span) -> int:
    limits = torch_scheduler.Limits(*span)
    measured = torch_scheduler.table_of(table)
    values = torch_scheduler.paid(floats(survivals), measured, limits, torch.tensor(real))
    return int(torch_scheduler.stopped_early(values))


def _torch_unpack(packed: Sequence[int], windows: Sequence[int], width: int) -> list[list[int]]:
    rows: list[list[int]] = _listed(torch_ragged.unpack(ints(packed), ints(windows), width, -1))
    return rows


def _torch_fill(windows: Sequence[int], padding: int, bucket: int, widest: int) -> list[int]:
    """What a padding row's window was before must not matter: here it is 9."""
    real, rows = len(windows), len(windows) + padding
    if not torch_ragged.bucket_fits(sum(windows), real, rows, bucket, widest):
        raise BatchError("does not fit")
    start = ints([*windows, *[9] * padding])
    return [int(w) for w in torch_ragged.fill_bucket(start, torch.tensor(real), bucket, widest)]


def _torch_fit(outcomes: Sequence[calibration.Outcome], block: int) -> list[float]:
    logits = torch.tensor([o.logits for o in outcomes], dtype=torch.float32).reshape(-1, block)
    verified, accepted = ints([o.verified for o in outcomes]), ints([o.accepted for o in outcomes])
    return [float(value) for value in torch_calibration.fit(logits, verified, accepted)]


TORCH = Side(
    name="torch",
    source_rows=_torch_sources,
    calibrated=_torch_calibrated,
    survival=_torch_survival,
    windows=_torch_windows,
    prefix_schedule=lambda survivals, table: _listed(
        torch_scheduler.prefix_schedule(floats(survivals), torch_scheduler.table_of(table))
    ),
    stopped_early=_torch_stopped,
    best_budget=lambda survivals, table, span: torch_scheduler.best_budget(
        floats(survivals),
        torch_scheduler.table_of(table),
        torch_scheduler.Limits(*span),
    ),
    qo_indptr=lambda windows: _listed(torch_ragged.qo_indptr(ints(windows))),
    pack=ragged.pack,  # the host packs
    unpack=_torch_unpack,
    fill_bucket=_torch_fill,
    agreed_shape=torch_ragged.agreed_shape,
    fit=_torch_fit,
)

both = pytest.mark.parametrize("side", [REFERENCE, TORCH], ids=repr)
