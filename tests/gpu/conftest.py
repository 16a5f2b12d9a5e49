"""Batches and workers for the tests of the torch implementation."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import batches
import pytest
import torch
from batches import ctx, gen
from device import DEVICE

from draftproof.gpu.kernels.loading import prepare
from draftproof.gpu.worker import DSparkWorker, make
from draftproof.reference.vocabulary import PADDING_ID_BASE, Batch, Collaborators, Config

torch.set_num_threads(1)
prepare(DEVICE)  # before anything imports triton


@pytest.fixture
def build() -> Callable[..., Batch]:
    """Builds a batch in which the target accepts as much of each generation as wanted."""
    return make_batch


@pytest.fixture
def worker() -> Callable[..., DSparkWorker]:
    """Makes a poisoned worker: K = 3, W = 8, 2 stages, S = 4 unless told otherwise.

    options: those of `make`.
    """

    def start(
        at: Callable[[str], None] = lambda seam: None,
        options: Mapping[str, str] = MappingProxyType({}),
        **settings: Any,
    ) -> DSparkWorker:
        sizes = {"max_draft_len": 3, "window_size": 8, "num_stages": 2, "max_num_requests": 4}
        config = Config(**{"poison": True, **sizes, **settings})
        lent = Collaborators(at, drafter=lambda *_: ([], []))
        return make(config, DEVICE.type, lent, **options)

    return start


def make_batch(
    draft_len: int,
    contexts: Sequence[tuple[int, int, int, int]] = (),
    generations: Sequence[tuple[int, int, int, int]] = (),
    padding: int = 0,
    step: int = 0,
    windows: tuple[int, ...] | None = None,
    **fields: Any,
) -> Batch:
    """`batches.make_batch` in fewer words: contexts: (id, incarnation, first position, length);
    generations: (id, incarnation, position, n = tokens it gets). The drafts of padding rows are 1.
    Sequence slots are batch indices, the scratch ones 4. fields: replace those of the batch.
    """
    rows = [*generations, *[(PADDING_ID_BASE - draft_len, 0, draft_len, 1)] * padding]
    fed = [
        gen(i, at, incarnation, seq_slot=min(4, len(contexts) + g), proposed=draft_len)
        for g, (i, incarnation, at, _) in enumerate(rows)
    ]
    drafts = [0] * (len(generations) * draft_len) + [1] * (padding * draft_len)
    return batches.make_batch(
        *(ctx(i, at, n, own, seq_slot=b) for b, (i, own, at, n) in enumerate(contexts)),
        *fed,
        r=draft_len,
        counts=[n for *_, n in rows],
        step=step,
        **{"drafts": array("q", drafts), "verify_lens": windows, **fields},
    )
