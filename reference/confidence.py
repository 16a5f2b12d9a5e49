"""How far a draft is trusted: from confidence logits to survivals (semantics, section 14).

Every probability here is a float32: a Python float rounded to the nearest one by `single`. The
product of two float32 is exact in a Python float, so each factor is rounded once, as float32
hardware does it.

Names: K draft positions, S slots. Per-slot tables have S + 2 rows: S slots, the scratch row S that
idle and padding rows share, and the neutral row S + 1 about which nothing is ever known.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite

from draftproof.reference.vocabulary import GenerationRow

Rows = Sequence[Sequence[float]]
"""Numbers per row and draft position, [rows][K]."""


def single(value: float) -> float:
    """The nearest float32, ties to even."""
    return array("f", (value,))[0]


LEAST_SURVIVAL = single(1e-6)
"""Less than this is never worth a token of the budget. A float32, so that both sides mean the
same number by it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the worker knew after a step, as whoever plans a later step reads it.

    logits: [S + 2][K]; stamps: [S + 2], the `draft_seq` of the step that drafted the row;
    owners: request id -> (slot, incarnation) at that time; taken: `draft_seq` of that step.
    """

    logits: Rows
    stamps: Sequence[int]
    owners: Mapping[int, tuple[int, int]]
    taken: int

    def sources(self, generations: Sequence[GenerationRow]) -> list[int]:
        """The row of `logits` to read for each generation; the neutral row if it has none.

        A slot may have changed hands since the snapshot was taken, and the stamp cannot show
        that: the row belongs to whoever held the slot then.
        """
        slots = owned_slots(self.owners, generations, len(self.logits) - 2)
        return source_rows(self.logits, self.stamps, slots, self.taken)


def owned_slots(
    owners: Mapping[int, tuple[int, int]], generations: Sequence[GenerationRow], scratch: int
) -> list[int]:
    """The slot of each generation's incarnation, or scratch if it is unknown."""
    slots = []
    for row in generations:
        slot, incarnation = owners.get(row.request_id, (scratch, row.incarnation))
        slots.append(slot if incarnation == row.incarnation else scratch)
    return slots


def source_rows(
    logits: Rows, stamps: Sequence[int], slots: Sequence[int], expected: int
) -> list[int]:
    """The row to read for each generation: its slot's own, or the neutral one, as a whole.

    Neutral are the unknown (scratch), rows with any non-finite logit, and rows whose stamp is
    not `expected`: `draft_seq - 1` for the drafts that are verified in this step, and the
    snapshot's `taken` for an older one.
    """
    neutral = len(logits) - 1
    scratch = neutral - 1
    return [
        slot
        if slot < scratch and stamps[slot] == expected and all(map(isfinite, logits[slot]))
        else neutral
        for slot in slots
    ]


def calibrated(logits: Rows, temperatures: Sequence[float] | None = None) -> list[list[float]]:
    """c_k = sigmoid(logit / T_k), rounded to float32; temperatures: [K], None: all 1.

    For real runs: state checks are handed c_k, since the last bit of a sigmoid is nobody's
    business and could flip a tie. The logits must be finite, so pick the source rows first.
    """
    scales = temperatures if temperatures is not None else [1.0] * max(map(len, logits), default=0)
    return [
        [single(sigmoid(logit / scale)) for logit, scale in zip(row, scales, strict=True)]
        for row in logits
    ]


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)), without overflow."""
    if x >= 0:
        return 1.0 / (1.0 + exp(-x))
    tail = exp(x)
    return tail / (1.0 + tail)


def survival(confidences: Rows, real: int) -> list[list[float]]:
    """The running product of each row's confidences, rounded to float32 at each factor.

    confidences: [G][K], float32, in 0 .. 1; the first `real` rows stand for requests, the others
    (idle, padding) survive with probability 0.
    """
    survivals = []
    for row in confidences[:real]:
        running, products = 1.0, []
        for confidence in row:
            running = single(running * confidence)
            products.append(running)
        survivals.append(products)
    return survivals + [[0.0] * len(row) for row in confidences[real:]]
