"""Kernels of the draft model against their eager twins (semantics, section 8b).

Where sums are exact, tokens are equal, ties included. Elsewhere a tolerance follows from the
arithmetic: u = 2^-24 for float32, 2^-8 for bfloat16, per rounding.
"""

from __future__ import annotations

from types import ModuleType

import torch
from device import DEVICE
from torch import Tensor

from draftproof.gpu.draft_model import heads, operations
from draftproof.gpu.operations import Accepted, Prompt
from kernels.inputs import NAN, Numbers, same

DTYPES = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8}
"""The dtypes of a draft model, and the relative error of rounding to each."""

SHAPES = ((0, 2, 1, 8, 4), (1, 1, 1, 2, 1), (2, 5, 3, 12, 6), (3, 7, 4, 32, 40))
"""Requests, K, heads, head_dim, W."""


def check_attention(module: ModuleType) -> None:
    """The first request sees no frame at all; cells that are not visible are NaN; the last of
    several heads has no sink.
    """
    for seed, (requests, block, count, size, width) in enumerate(SHAPES):
        for dtype, u in DTYPES.items():
            numbers = Numbers(seed)
            q = numbers.normal(requests, block, count, size).to(dtype)
            windows = numbers.normal(requests + 2, 3, width, size).to(dtype)
            slots = torch.randperm(requests + 1, generator=numbers.generator)[:requests]
            visible = numbers.flags(requests, width)
            visible[:1] = False
            own = windows[slots]
            own.masked_fill_(~visible[:, None, :, None], NAN)
            windows[slots] = own
            rows, sink = numbers.normal(requests, block, size).to(dtype), numbers.normal(count)
            sink[1:][-1:] = float("-inf")
            given = q, windows[:, 1], slots, visible, rows, sink
            found = module.sink_attention(*given, most=16, most_cells=16)
            expected = operations.sink_attention(*given)
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            if requests:
                largest = float(max(windows.nan_to_num(nan=0).abs().max(), rows.abs().max()))
                # Scores: size products each, summed in another order. Twice what they are off by
                # is what a mean of rows is off by, at most, in units of the largest component; 16
                # for a GPU's exponential.
                score = float(q.abs().max()) * largest * size**0.5
                off = 2 * size * 2.0**-24 * score + (width + block + 16) * 2.0**-24 + 3 * u
                assert (found.float() - expected.float()).abs().max() <= off * largest


def check_norm_rotary(module: ModuleType) -> None:
    """Rows with norm and rotary applied, at large positions too, with a weight and without."""
    table = operations.rotary_table(5000, 6, 10_000.0, DEVICE)
    for seed, (rows, count, size) in enumerate(((0, 1, 8), (1, 1, 6), (5, 3, 10), (9, 2, 32))):
        for dtype, u in DTYPES.items():
            numbers = Numbers(seed)
            x, positions = numbers.normal(rows, count, size).to(dtype), numbers.ints(0, 4999, rows)
            for weight in (None, numbers.normal(count, size).to(dtype)):
                found = module.norm_rotary(x, weight, positions, table, 1e-6)
                expected = normed(x, weight, positions, table)
                close_rows(found, expected, size, u)


def check_normed_windows(module: ModuleType) -> None:
    """Norm, rotary and store in one: contexts, generations and both, W < R, NaN around."""
    table = operations.rotary_table(60, 4, 10_000.0, DEVICE)
    for seed, (width, r, stages) in enumerate(((8, 3, 2), (3, 7, 3), (1, 1, 1))):
        for dtype, u in DTYPES.items():
            numbers, size = Numbers(seed), 10
            found = torch.full((7, stages, width, size), NAN, dtype=dtype)
            expected = found.clone()
            weight = numbers.normal(stages, size).to(dtype)
            fresh = numbers.normal(3, r + 1, stages, size).to(dtype)
            slots, old = torch.tensor([2, 0, 4]), numbers.ints(0, 30, 3)
            counts = numbers.ints(1, r + 1, 3)
            chunk = numbers.normal(5, stages, size).to(dtype)
            sources = torch.arange(5)[-width:]
            prompt = Prompt(chunk, sources, torch.full_like(sources, 5), sources + 7)
            step = prompt, Accepted(fresh, slots, old, counts)
            norm = operations.NormRotary(weight, table, 1e-6)
            module.write_normed_windows(found, *step, norm, most=2)
            operations.store(expected, *step, norm)
            same(found[:6].isnan(), expected[:6].isnan())
            close_rows(found[:6].nan_to_num(nan=0), expected[:6].nan_to_num(nan=0), size, u)
            assert found[6].isnan().all()


def check_markov(module: ModuleType) -> None:
    """The greedy chain; all sums are exact, and many logits are equal: the first one wins.

    In two launches a position and in one. The last shape has more pieces than a joined launch
    looks at at a time.
    """
    shapes = ((0, 2, 5, 3), (1, 1, 1, 1), (3, 4, 37, 24), (17, 2, 50, 16), (2, 3, 545, 1))
    for seed, (rows, block, vocab, rank) in enumerate(shapes):
        for dtype in DTYPES:
            given = exact_chain(Numbers(seed), rows, block, vocab, rank, dtype)
            expected, pieces = heads.markov_chain(*given), 2 if vocab < 500 else 40
            for joined in (False, True):
                sizes = {"most_columns": 16, "most_pieces": pieces, "joined": joined}
                same(module.markov_chain(*given, **sizes), expected)


def check_markov_sampled(module: ModuleType) -> None:
    """Drawn tokens, and the laws they were drawn from; greedy rows among them."""
    shapes = ((0, 2, 5, 3), (1, 1, 1, 1), (3, 4, 37, 24), (17, 2, 50, 16))
    for seed, (rows, block, vocab, rank) in enumerate(shapes):
        numbers = Numbers(seed)
        given = exact_chain(numbers, rows, block, vocab, rank, torch.float32)
        heat = 0.5 + torch.rand(rows, generator=numbers.generator)
        uniforms = torch.rand(rows, block, generator=numbers.generator)
        uniforms[:1] = 1.0  # nothing exceeds the whole: the last token with mass
        drawing = heads.Drawing(numbers.flags(rows), heat, uniforms)
        tokens, laws = module.markov_chain_sampled(*given, drawing, most_columns=16, most_pieces=2)
        wanted, expected = heads.markov_chain_sampled(*given, drawing)
        same(tokens, wanted)
        # A softmax: exponents up to about 2^6 are off by u each, and vocab numbers are summed.
        assert laws.shape == expected.shape
        assert ((laws - expected).abs() <= (2.0**6 + vocab) * 2.0**-24 * expected).all()


def exact_chain(
    numbers: Numbers, rows: int, block: int, vocab: int, rank: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits, bonus, W1 and W2 of small multiples of 1/2: every product and sum is exact."""
    logits = numbers.ints(-6, 6, rows, block, vocab) / 2
    bonus = numbers.ints(0, vocab - 1, rows)
    w1, w2 = (numbers.ints(-2, 2, vocab, rank) / 2 for _ in range(2))
    return logits, bonus, w1.to(dtype), w2.to(dtype)


def normed(x: Tensor, weight: Tensor | None, positions: Tensor, table: Tensor) -> Tensor:
    """The eager twin of norm and rotary; x: [T, N, D]."""
    return operations.rotary(operations.rms_norm(x, weight, 1e-6), positions, table)


def close_rows(found: Tensor, expected: Tensor, size: int, u: float) -> None:
    """Rows [..., D] after norm and rotary.

    The mean of D squares is summed in another order, its root is a GPU's approximation, and the
    norm's result may be rounded to the neighbour for both; then rotary mixes two components, and
    rounds again.
    """
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if found.numel():
        off = (found.float() - expected.float()).abs().amax(-1)
        largest = expected.float().abs().amax(-1)
        assert (off <= ((size + 8) * 2.0**-24 + 4 * u) * largest).all()
