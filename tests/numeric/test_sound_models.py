"""Sound models agree with the reference, in both dtypes, at every size, and not by wide margins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from draftproof.gpu.dispatch import draft_operations
from draftproof.gpu.draft_model import operations
from draftproof.gpu.draft_model.door import make
from draftproof.gpu.draft_model.model import EAGER, Operations
from draftproof.reference.numeric.model import DraftModel
from draftproof.reference.numeric.shape import Shape, Weights, random_weights
from draftproof.sim.errors import UsageError
from draftproof.sim.numeric import check_numeric
from draftproof.sim.numeric_door import random_state
from draftproof.sim.numeric_error import ARITHMETIC, SAFETY, Arithmetic, ErrorAnalysis
from numeric.planted import with_operations

# ---- sound models pass ---------------------------------------------------------------------------

LARGE = Shape(
    block=7, window=16, stages=3, vocab=128, hidden=64, head_dim=32, rope_head_dim=16, q_rank=32,
    o_rank=16, ffn=128, markov_rank=16,
)  # fmt: skip
SMALL = Shape(
    block=4, stages=1, vocab=16, hidden=8, captured_layers=1, streams=2, heads=1, head_dim=4,
    rope_head_dim=2, q_rank=4, groups=1, o_rank=4, ffn=8, markov_rank=4,
)  # fmt: skip
SHAPES = {
    **{f"K = {k}": Shape(block=k) for k in range(1, 8)},
    "W = 1": Shape(window=1),
    "W < K": Shape(window=2, block=7),
    "recurrent": Shape(rnn=True),
    "one group": Shape(groups=1),
    "a group per head": Shape(groups=4),
    "one head": Shape(heads=1, groups=1),
    "one stream": Shape(streams=1, captured_layers=3),
    "all components turn": Shape(rope_head_dim=16),
    "small": SMALL,
    "large": LARGE,
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", SHAPES)
def test_the_eager_model_agrees_with_the_reference(name: str, dtype: str) -> None:
    """If this fails, torch and the reference read section 8b differently, or bounds are wrong.

    The state has empty, partly full, full and wrapped windows, and positions up to 8000.
    """
    report = check_numeric(make, SHAPES[name], dtype, seed=1)
    assert report.ok, "\n".join(report.lines())
    assert not report.not_checked
    assert set(report.worst) == {"window_rows", "hidden", "logits", "confidence"}
    assert max(report.worst.values()) < 0.7  # there is room for others, who round more often


@pytest.mark.interpreted
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["small", "K = 5", "K = 7", "W < K", "recurrent", "large"])
def test_the_model_on_kernels_agrees_with_the_reference(name: str, dtype: str) -> None:
    """If this fails, a Triton kernel reads section 8b differently, or rounds too often."""
    kernels = draft_operations("triton", torch.device("cpu"))
    report = check_numeric(with_operations(kernels), SHAPES[name], dtype, seed=1)
    assert report.ok, "\n".join(report.lines())
    assert not report.not_checked
    assert max(report.worst.values()) < 0.8


def head_norm_in_dtype() -> Operations:
    """The per-head norm of the query as in the public source: in the query's dtype."""

    def queries(*args: Any) -> Tensor:
        x, wq_a, q_norm, wq_b, positions, table, head_dim, eps = args
        low = operations.rms_norm(torch.nn.functional.linear(x, wq_a), q_norm, eps)
        heads = torch.unflatten(torch.nn.functional.linear(low, wq_b), -1, (-1, head_dim))
        heads = heads * torch.rsqrt(heads.square().mean(-1, keepdim=True) + eps)
        return operations.rotary(heads, positions, table)

    return replace(EAGER, queries=queries)


def probabilities_in_dtype() -> Operations:
    """Probabilities rounded to the dtype before they meet the values, as flash kernels do."""

    def attention(
        q: Tensor, windows: Tensor, slots: Tensor, visible: Tensor, block_kv: Tensor, sink: Tensor
    ) -> Tensor:
        cells = torch.where(visible.unsqueeze(-1), windows[slots], 0)
        rows = torch.cat([cells, block_kv], 1)
        scores = torch.einsum("gknd,gjd->gknj", q.float(), rows.float()) * q.shape[-1] ** -0.5
        masked = torch.nn.functional.pad(~visible, (0, q.shape[1]))[:, None, None]
        scores = scores.masked_fill(masked, float("-inf"))
        with_sink = torch.cat([scores, sink[:, None].expand(*scores.shape[:3], 1)], -1)
        p = torch.softmax(with_sink, -1)[..., :-1].to(q.dtype)
        return torch.einsum("gknj,gjd->gknd", p, rows)

    return replace(EAGER, sink_attention=attention)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("variant", [head_norm_in_dtype, probabilities_in_dtype])
@pytest.mark.parametrize("name", ["small", "K = 5"])
def test_other_sound_roundings_pass(variant: Any, name: str, dtype: str) -> None:
    """If this fails, tolerances fit our own model only."""
    report = check_numeric(with_operations(variant()), SHAPES[name], dtype, seed=2)
    assert report.ok, "\n".join(report.lines())


def float32_angles(sizes: Mapping[str, Any], weights: Mapping[str, Any], dtype: str) -> Any:
    """A rotary table as public sources make it: positions times frequencies in float32."""
    door = make(sizes, weights, dtype)
    shape = door.model.shape
    steps = torch.arange(0, shape.rope_head_dim, 2, dtype=torch.float32) / shape.rope_head_dim
    angles = torch.arange(shape.max_position + 1, dtype=torch.float32).outer(
        1.0 / shape.rope_base**steps
    )
    door.model.table = torch.stack([angles.cos(), angles.sin()], -1)
    return door


def test_angles_in_float32_need_their_own_arithmetic() -> None:
    """If this fails, an error that grows with the position is forgiven everywhere, or nowhere."""
    assert not check_numeric(float32_angles, Shape(), seed=2).ok
    coarse = Arithmetic(2.0**-24, angle=2.0**-24)
    report = check_numeric(float32_angles, Shape(), seed=2, arithmetic=coarse)
    assert report.ok, "\n".join(report.lines())


# ---- tolerances ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "narrow", "usual"), [("float32", 2e-5, (0.02, 0.5)), ("bfloat16", 0.12, (0.2, 0.7))]
)
@pytest.mark.parametrize("name", ["small", "recurrent", "large"])
def test_tolerances_are_narrow_and_errors_fill_them(
    name: str, dtype: str, narrow: float, usual: tuple[float, float]
) -> None:
    """If this fails, a tolerance is so wide that it hides faults, or the analysis is not of this
    arithmetic: errors must have about the size that it predicts, not far less, not more.
    """
    shape = SHAPES[name]
    weights = random_weights(shape, 5)
    state, truth = random_state(shape, weights, 5), DraftModel(shape, weights)
    analysis = ErrorAnalysis(shape, weights, ARITHMETIC[dtype])
    door = make(*as_data(shape, weights), dtype)
    blocks = [truth.draft(*row) for row in requests(state)]
    fed = [[b, *block.tokens[:-1]] for b, block in zip(state.bonuses, blocks, strict=True)]
    found = door.draft(state.windows, state.starts, state.bonuses, fed)
    shares, widths, spread = [], [], []
    for g, (row, block) in enumerate(zip(requests(state), blocks, strict=True)):
        size = analysis.logits(analysis.block_hidden(*row), fed[g]).error
        errors = np.abs(np.array(found.logits[g].tolist()) - np.array(block.logits))
        shares.append(errors / size)
        widths.append(SAFETY * size)
        spread.append(np.array(block.logits).std(1))
    assert np.median(widths) < narrow * np.mean(spread)
    assert usual[0] < np.sqrt(np.mean(np.square(shares))) < usual[1]


def test_an_analysis_that_cannot_say_anything_says_so() -> None:
    """If this fails, a dtype too coarse for a model gets meaningless tolerances."""
    with pytest.raises(UsageError, match="too uncertain in this dtype"):
        check_numeric(make, Shape(), "bfloat16", arithmetic=Arithmetic(0.25))


def requests(state: Any) -> list[tuple[Any, int, int]]:
    return list(zip(state.windows, state.starts, state.bonuses, strict=True))


def as_data(shape: Shape, weights: Weights) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a factory is given."""
    return asdict(shape), asdict(weights)
