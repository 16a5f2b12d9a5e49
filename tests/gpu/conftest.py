"""Batches and workers for the tests of the torch implementation."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest
import torch
from device import DEVICE

from draftproof.gpu.kernels.loading import prepare
from draftproof.gpu.worker import DSparkWorker, make
from draftproof.reference.vocabulary import (
    PADDING_ID_BASE,
    Batch,
    Collaborators,
    Config,
    ContextRow,
    GenerationRow,
)

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
    """contexts: (id, incarnation, first position, length); generations: (id, incarnation,
    position, n = tokens it gets), whose drafts are all 0; the target says 0, and 1 for the bonus.
    Sequence slots are batch indices, the scratch ones 4. fields: replace those of the batch.
    """
    rows = [*generations, *[(PADDING_ID_BASE - draft_len, 0, draft_len, 1)] * padding]
    widths = windows or (1 + draft_len,) * len(rows)
    spans = [(inc, first, length) for _, inc, first, length in contexts]
    spans += [(inc, at, width) for (_, inc, at, _), width in zip(rows, widths, strict=True)]
    hidden = [
        digit
        for inc, first, length in spans
        for p in range(first, first + length)
        for digit in (*divmod_low(inc), *divmod_low(p), *divmod_low(step), 0)
    ]
    answers = [[0] * (n - 1) + [1] * width for (*_, n), width in zip(rows, widths, strict=True)]
    target = [token for answer, w in zip(answers, widths, strict=True) for token in answer[:w]]
    settings: dict[str, Any] = {
        "step": step,
        "mode": "eager",
        "draft_len": draft_len,
        "contexts": tuple(
            ContextRow(i, inc, b, first, length)
            for b, (i, inc, first, length) in enumerate(contexts)
        ),
        "generations": tuple(
            GenerationRow(i, inc, min(4, len(contexts) + g), at, draft_len)
            for g, (i, inc, at, _) in enumerate(rows)
        ),
        "drafts": array("q", [0] * (len(generations) * draft_len) + [1] * (padding * draft_len)),
        "target_tokens": array("q", [9] * len(contexts) + target),
        "hidden": array("b", hidden),
        "verify_lens": windows,
    }
    return Batch(**{**settings, **fields})


def divmod_low(number: int) -> tuple[int, int]:
    """Two base-128 digits, low first."""
    high, low = divmod(number, 128)
    return low, high % 128
