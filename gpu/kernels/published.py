"""Every launcher at the published sizes, for whoever records what it launches.

Tensors are on the device "meta": they have shapes and no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from draftproof.gpu.draft_model.heads import Drawing
from draftproof.gpu.draft_model.operations import NormRotary
from draftproof.gpu.kernels.acceptance import verify
from draftproof.gpu.kernels.attention import sink_attention
from draftproof.gpu.kernels.draft_model import norm_rotary
from draftproof.gpu.kernels.exact_drafter import Confidences, Draws, draft
from draftproof.gpu.kernels.markov import markov_chain, markov_chain_sampled
from draftproof.gpu.kernels.philox import uniforms
from draftproof.gpu.kernels.probabilities import scatter_vocabulary, write_one_hot
from draftproof.gpu.kernels.rejection import reject
from draftproof.gpu.kernels.windows import write_normed_windows, write_windows
from draftproof.gpu.operations import Accepted, Counters, Prompt, Verified
from draftproof.gpu.philox import Seeds
from draftproof.gpu.rejection import Sampling

ROWS, SLOTS = 64, 256
WINDOW, STAGES, HEAD_DIM, ROPE, HEADS = 128, 3, 512, 64, 64
VOCAB, DRAFT_VOCAB, RANK = 129_280, 32_000, 256


class Case(NamedTuple):
    """A name, and a call that makes its launches."""

    name: str
    call: Callable[[], object]


def cases(block: int) -> Iterator[Case]:
    """Every launcher, in every variant that compiles to another kernel; block: K."""
    yield from _decisions(block)
    yield from _writes(block)
    yield from _drafting(block)


def _decisions(block: int) -> Iterator[Case]:
    drafts, target = _ints(ROWS, block), _ints(ROWS, block + 1)
    windows, seq_slots = _ints(ROWS), _ints(ROWS)
    sampling = Sampling(
        target_probs=_floats(ROWS, block + 1, VOCAB),
        proposed=_ints(ROWS),
        greedy=_flags(ROWS),
        accept_uniforms=_floats(ROWS, block),
        recover_uniforms=_floats(ROWS, block + 1),
        draft_uniforms=_floats(ROWS, block + 1, block),
    )
    seeds = Seeds(*(_ints(ROWS) for _ in Seeds._fields))
    yield Case("random numbers", partial(uniforms, seeds, 2 * block + 1))
    probs, narrow = _floats(SLOTS + 1, block, VOCAB), _floats(ROWS, block, DRAFT_VOCAB)
    for name, limits in (("uniform", None), ("ragged", windows)):
        yield Case(f"strict, {name}", partial(verify, drafts, target, limits, _counters()))
        yield Case(
            f"rejection, {name}",
            partial(reject, drafts, probs, seq_slots, sampling, limits, _counters()),
        )
    yield Case("one-hot rows", partial(write_one_hot, probs, seq_slots, drafts))
    yield Case("rows of the law", partial(write_one_hot, probs, seq_slots, drafts, _flags(ROWS)))
    yield Case(
        "narrower vocabulary", partial(scatter_vocabulary, probs, seq_slots, narrow, _ints(VOCAB))
    )


def _writes(block: int) -> Iterator[Case]:
    tagged = _halves(SLOTS + 1, STAGES, WINDOW, 7)
    windows = _halves(SLOTS + 1, STAGES, WINDOW, HEAD_DIM)
    weight, table = _halves(STAGES, HEAD_DIM), _floats(8192, ROPE // 2, 2)
    norm = NormRotary(weight, table, 1e-6)
    slots, count = _ints(ROWS), _ints(ROWS)
    names = "window write", "window write, norm and rotary"
    for where in ("contexts", "generations", "both"):
        for name, wide in zip(names, (False, True), strict=True):
            row = (STAGES, HEAD_DIM) if wide else (7,)
            prompt = Prompt(_halves(1024, *row), _ints(512), _ints(512), _ints(512))
            accepted = Accepted(_halves(ROWS, block + 1, *row), slots, count, count)
            parts = {
                "contexts": (prompt, None),
                "generations": (None, accepted),
                "both": (prompt, accepted),
            }[where]
            write = (
                partial(write_normed_windows, windows, *parts, norm)
                if wide
                else partial(write_windows, tagged, *parts)
            )
            yield Case(f"{name}, {where}", write)
    rows = _halves(ROWS * block, HEADS, HEAD_DIM)
    yield Case(
        "norm and rotary of queries",
        partial(norm_rotary, rows, None, _ints(ROWS * block), table, 1e-6),
    )


def _drafting(block: int) -> Iterator[Case]:
    counts = _ints(4, ROWS)
    verified = Verified(_ints(ROWS, block + 1), *counts)
    memory = Confidences(_floats(SLOTS + 2, block), _ints(SLOTS + 2), torch.empty_like(_ints()))
    tagged = _halves(SLOTS + 1, STAGES, WINDOW, 7)
    exact = partial(draft, tagged, _ints(ROWS), verified, memory, VOCAB)
    yield Case("exact drafter", exact)
    draws = Draws(_flags(ROWS), _floats(ROWS, block))
    yield Case("exact drafter, sampled", partial(exact, draws))
    windows = _halves(SLOTS + 1, STAGES, WINDOW, HEAD_DIM)
    query, block_kv = _halves(ROWS, block, HEADS, HEAD_DIM), _halves(ROWS, block, HEAD_DIM)
    yield Case(
        "sink attention",
        partial(
            sink_attention,
            *(query, windows[:, 1], _ints(ROWS), _flags(ROWS, WINDOW), block_kv, _floats(HEADS)),
        ),
    )
    w1 = w2 = _halves(VOCAB, RANK)
    drawing = Drawing(_flags(ROWS), _floats(ROWS), _floats(ROWS, block))
    for rows in (16, ROWS):
        inputs = _floats(rows, block, VOCAB), _ints(rows), w1, w2
        for name, joined in (("", False), (", joined", True)):
            chain = partial(markov_chain, *inputs, joined=joined)
            yield Case(f"Markov chain{name}, {rows} rows", chain)
        yield Case(
            f"Markov chain, sampled, {rows} rows", partial(markov_chain_sampled, *inputs, drawing)
        )


def _counters() -> Counters:
    state = _ints(SLOTS + 1), _ints(SLOTS + 1), _flags(SLOTS + 1)
    return Counters(*state, _ints(ROWS), _ints(ROWS), WINDOW)


def _ints(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.int64, device="meta")


def _floats(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32, device="meta")


def _halves(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.bfloat16, device="meta")


def _flags(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.bool, device="meta")
