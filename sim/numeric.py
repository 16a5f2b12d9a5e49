"""One step of a draft model against the true mathematics, within what its arithmetic allows.

`check_numeric` takes a state (windows, positions, bonus tokens), lets the reference of section 8b
and an implementation draft from it, and compares what they give. Nothing an implementation
computes is ever fed on: each position restarts from the reference's own previous token.

An implementation is reached by the door of `numeric_door`. Every number must lie within its own
tolerance, which `numeric_error` derives from the arithmetic of the dtype.

**Tokens** must be equal wherever the two best logits are further apart than the tolerance of
their difference. Elsewhere, at a near-tie, any of the tied tokens will do. Whether a position is
a near-tie is decided by the reference and the dtype alone, so no implementation can make itself
more of them; their share is bounded, because a check in which most tokens are free says little.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from draftproof.reference.numeric.model import Block, DraftModel
from draftproof.reference.numeric.shape import Shape, random_weights
from draftproof.sim.divergence import Divergence
from draftproof.sim.numeric_door import MakeNumericModel, NumericModel, NumericState, random_state
from draftproof.sim.numeric_error import (
    ARITHMETIC,
    SAFETY,
    Approx,
    Arithmetic,
    Array,
    ErrorAnalysis,
)
from draftproof.sim.shapes import listed

MOST_NEAR_TIES = {"float32": 0.01, "bfloat16": 0.3}
"""The share of positions that may be near-ties; of their count, three standard deviations more.

Of V logits with spread s the two best are about s / sqrt(2 ln V) apart, exponentially distributed;
the tolerance of their difference is some 0.1 s in bfloat16, and some 1e-5 s in float32. Over 40
seeds 0.18 of a bfloat16 Markov model's positions were near-ties, never more than 0.4 of a step's.
"""

FIELDS = ("hidden", "logits", "confidence")


@dataclass(slots=True)
class NumericReport:
    """What was compared, and what was wrong.

    worst: per field the largest error as a share of its tolerance; positions: block positions
    compared; near_ties: those among them where the two best logits are too close to tell;
    flips: near-ties where the implementation chose another of the tied tokens;
    unfed: positions of its own chain after a flip, not compared; not_checked: fields not shown.
    """

    dtype: str
    worst: dict[str, float] = field(default_factory=dict)
    positions: int = 0
    near_ties: int = 0
    flips: int = 0
    unfed: int = 0
    not_checked: set[str] = field(default_factory=set)
    failures: list[Divergence] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing was wrong."""
        return not self.failures

    def lines(self) -> list[str]:
        """The report, one fact a line, then the first failure."""
        shares = ", ".join(f"{name} {share:.3f}" for name, share in self.worst.items())
        lines = [
            f"{self.dtype}: errors as shares of their tolerance: {shares}",
            f"{self.near_ties} of {self.positions} positions are near-ties, "
            f"{self.flips} decided otherwise, {self.unfed} not compared after one",
        ]
        if self.not_checked:
            lines.append(f"not checked: {', '.join(sorted(self.not_checked))}")
        return lines + (self.failures[0].lines() if self.failures else [])


def check_numeric(
    make: MakeNumericModel,
    shape: Shape,
    dtype: str = "float32",
    seed: int = 0,
    state: NumericState | None = None,
    arithmetic: Arithmetic | None = None,
) -> NumericReport:
    """Compare one step of an implementation with the reference.

    Weights come from the seed, and so does the state if none is given; arithmetic: the unit
    roundoffs of an implementation that differs from `ARITHMETIC[dtype]`.
    """
    weights = random_weights(shape, seed)
    state = state or random_state(shape, weights, seed)
    found = make(asdict(shape), asdict(weights), dtype)
    analysis = ErrorAnalysis(shape, weights, arithmetic or ARITHMETIC[dtype])
    comparison = _Comparison(DraftModel(shape, weights), analysis, state, NumericReport(dtype))
    comparison.windows(found)
    comparison.blocks(found)
    return comparison.report


class _Comparison:
    """One state, drafted by the reference, with the tolerance of every number."""

    def __init__(
        self,
        model: DraftModel,
        analysis: ErrorAnalysis,
        state: NumericState,
        report: NumericReport,
    ) -> None:
        self.model = model
        self.analysis = analysis
        self.state = state
        self.report = report
        requests = zip(state.windows, state.starts, state.bonuses, strict=True)
        self.blocks_expected = [model.draft(*request) for request in requests]
        self.fed = [
            [bonus, *block.tokens[:-1]]
            for bonus, block in zip(state.bonuses, self.blocks_expected, strict=True)
        ]

    def windows(self, found: NumericModel) -> None:
        """The window rows of captured rows."""
        captured, frames = self.state.captured, self.state.frames
        expected = [self.model.window_rows(*row) for row in zip(captured, frames, strict=True)]
        truth = _agreeing(self.analysis.window_rows(captured, frames), expected)
        rows = listed(found.window_rows(captured, frames))
        self._numbers("window_rows", truth, rows, {"frame": frames})

    def blocks(self, found: NumericModel) -> None:
        """The blocks of all requests, fed by the reference, then by the chain itself."""
        state = self.state
        fed = found.draft(state.windows, state.starts, state.bonuses, self.fed)
        free = found.draft(state.windows, state.starts, state.bonuses)
        shown = {name: listed(getattr(fed, name)) for name in (*FIELDS, "tokens")}
        chain = {name: listed(getattr(free, name)) for name in (*FIELDS, "tokens")}
        for g, block in enumerate(self.blocks_expected):
            truth = self._truth(g, block)
            for name in FIELDS:
                self._numbers(name, truth[name], _row(shown[name], g), {"row": g})
            tied = [_tied(truth["logits"], k) for k in range(len(block.tokens))]
            self.report.positions += len(tied)
            self.report.near_ties += sum(len(tokens) > 1 for tokens in tied)
            if self._shown("tokens", g, _row(shown["tokens"], g)):
                self._tokens(g, tied, block, shown["tokens"][g])
            if self._shown("chain", g, _row(chain["tokens"], g)):
                self._chain(g, tied, block, truth, chain)
        usual = MOST_NEAR_TIES[self.report.dtype] * self.report.positions
        bound = usual + 3 * math.sqrt(usual)
        if self.report.near_ties > bound:
            self._fail("near-ties", f"at most {bound:.1f}", self.report.near_ties)

    def _truth(self, g: int, block: Block) -> dict[str, Approx]:
        state, fed = self.state, self.fed[g]
        hidden = self.analysis.block_hidden(state.windows[g], state.starts[g], state.bonuses[g])
        logits = self.analysis.logits(hidden, fed)
        confidence = self.analysis.confidence(hidden, fed)
        return {
            "hidden": _agreeing(hidden, block.hidden),
            "logits": _agreeing(logits, block.logits),
            "confidence": _agreeing(confidence, block.confidence),
        }

    def _shown(self, name: str, g: int, tokens: Any) -> bool:
        """Whether there are K tokens to compare."""
        if tokens is None:
            self.report.not_checked.add(name)
            return False
        block = self.model.shape.block
        if len(tokens) != block:
            self._fail(name, f"{block} tokens", f"{len(tokens)} tokens", row=g)
        return len(tokens) == block

    def _tokens(self, g: int, tied: list[set[int]], block: Block, tokens: Any) -> None:
        """The token after each of the reference's own previous tokens."""
        for k, (token, allowed) in enumerate(zip(tokens, tied, strict=True)):
            self.report.flips += token != block.tokens[k] and token in allowed
            if token not in allowed:
                self._fail("tokens", block.tokens[k], token, row=g, position=k)

    def _chain(
        self,
        g: int,
        tied: list[set[int]],
        block: Block,
        truth: dict[str, Approx],
        chain: dict[str, Any],
    ) -> None:
        """The implementation's own chain, as far as it has fed itself the reference's tokens."""
        tokens, same = chain["tokens"][g], 0
        while same < len(tied) - 1 and tokens[same] == block.tokens[same]:
            same += 1
        if tokens[same] not in tied[same]:
            self._fail("chain", block.tokens[same], tokens[same], row=g, position=same)
        self.report.unfed += len(tied) - 1 - same
        for name in ("logits", "confidence"):
            rows = _row(chain[name], g)
            if rows is not None:
                near = Approx(*(part[: same + 1] for part in truth[name]))
                self._numbers(name, near, rows[: same + 1], {"row": g})

    def _numbers(self, name: str, truth: Approx, found: Any, where: dict[str, Any]) -> None:
        """Each number within its tolerance; the worst one is told. A NaN is never within."""
        if found is None:
            self.report.not_checked.add(name)
            return
        try:
            numbers = np.array(found, dtype=np.float64)
        except ValueError:  # rows of different lengths
            self._fail(name, f"shape {truth.value.shape}", "no shape")
            return
        if numbers.shape != truth.value.shape:
            self._fail(name, f"shape {truth.value.shape}", f"shape {numbers.shape}")
            return
        tolerance = SAFETY * truth.error + np.finfo(np.float32).tiny
        shares = np.abs(numbers - truth.value) / tolerance
        shares = np.where(np.isfinite(shares), shares, np.inf)
        index = tuple(int(i) for i in np.unravel_index(int(shares.argmax()), shares.shape))
        share = float(shares[index])
        self.report.worst[name] = max(self.report.worst.get(name, 0.0), share)
        if share > 1:
            known = {"position": index[0], **where}
            if "frame" in where:
                known = {"frame": where["frame"][index[0]], "stage": index[1]}
            known["whose"] = f"component {index[-1]}, tolerance {float(tolerance[index]):.3g}"
            self._fail(name, float(truth.value[index]), float(numbers[index]), **known)

    def _fail(self, name: str, expected: Any, found: Any, **where: Any) -> None:
        self.report.failures.append(Divergence("comparison", name, expected, found, **where))


def _row(rows: Any, g: int) -> Any:
    """What is shown of a request: None if the field is not shown, nothing if the row is missing."""
    return rows if rows is None else rows[g] if g < len(rows) else []


def _tied(logits: Approx, k: int) -> set[int]:
    """Tokens that may be the argmax at position k: the best, and those too close to it to tell."""
    value, error = logits.value[k], logits.error[k]
    best = int(value.argmax())
    apart: Array = value[best] - value
    tied = np.flatnonzero(apart <= SAFETY * np.hypot(error[best], error))
    return {best, *map(int, tied)}


def _agreeing(found: Approx, reference: Any) -> Approx:
    """The error analysis must be one of the reference's own numbers."""
    wanted = np.array(reference, dtype=np.float64)
    assert np.allclose(found.value, wanted, rtol=1e-9, atol=1e-9), "analysis and reference differ"
    return found
