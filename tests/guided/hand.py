"""Steps written by hand for one request and six tokens: a, b, c, d, e and the end token."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from batches import lent

from draftproof.gpu.worker import make as make_torch
from draftproof.reference.model import make as make_model
from draftproof.reference.vocabulary import (
    Batch,
    Config,
    ContextRow,
    GenerationRow,
    StepResult,
    Worker,
)
from draftproof.sim.packing import hidden_rows

A, B, C, D, E, END = range(6)
V = 6
CONFIG = Config(
    3, window_size=8, num_stages=1, max_num_requests=2, vocab_size=V, target_logits=True
)

both_sides = pytest.mark.parametrize("make", [make_model, make_torch], ids=["model", "torch"])
"""A rule holds for the reference and for the implementation, each in code of its own."""

Make = Callable[..., Worker]


def prefer(*tokens: int) -> list[float]:
    """Logits of one row: these tokens first, in this order, then the others from a on."""
    order = [*tokens, *(token for token in range(V) if token not in tokens)]
    return [3.0 - order.index(token) for token in range(V)]


class Request:
    """One decoding request and the worker that serves it; it begins at position 0, unprompted."""

    def __init__(self, make: Make, config: Config = CONFIG, **about: Any) -> None:
        self.worker = make(config, "cpu", lent(config))
        self.about: dict[str, Any] = {"request_id": 7, "incarnation": 1, "seq_slot": 1, **about}
        self.position = self.steps = 0

    def step(
        self,
        drafts: Sequence[int],
        *logits: list[float],
        prompt: Sequence[int] = (),
        **changes: Any,
    ) -> list[int]:
        """New tokens of a step over these drafts; prompt: what the worker is told of it."""
        row = GenerationRow(position=self.position, told=len(prompt), **self.about)
        kept = self.run([], [row], drafts, logits, prompt, **changes).new_tokens_lens
        tokens: list[int] = listed(self.result.new_tokens)[0][: listed(kept)[0]]
        if "mode" not in changes:
            self.position += len(tokens)
        return tokens

    def chunk(self, prompt: Sequence[int], logits: list[float], last: bool) -> int:
        """The target's token behind a chunk from position 0 on."""
        told = len(prompt)
        row = ContextRow(first_position=0, length=told, told=told, last=last, **self.about)
        self.run([row], [], [], [logits], prompt)
        self.position = told
        return int(listed(self.result.new_tokens)[0][0])

    def run(
        self,
        contexts: list[ContextRow],
        generations: list[GenerationRow],
        drafts: Sequence[int],
        logits: Sequence[list[float]],
        prompt: Sequence[int],
        **changes: Any,
    ) -> StepResult:
        count = sum(row.length for row in contexts) + sum(
            changes.get("verify_lens") or [1 + len(drafts)] * len(generations)
        )
        batch = Batch(
            **{
                "step": self.steps,
                "mode": "eager",
                "draft_len": len(drafts),
                "contexts": tuple(contexts),
                "generations": tuple(generations),
                "drafts": array("q", drafts),
                "target_tokens": array("q"),
                "hidden": hidden_rows([(1, self.position, count)], self.steps),
                "target_logits": array("f", [value for row in logits for value in row]),
                "prompt_tokens": array("q", prompt),
                **changes,
            }
        )
        self.steps += 1
        self.worker.prepare(batch)
        self.result = self.worker.forward(batch)
        return self.result

    @property
    def depth(self) -> int | None:
        """Of its grammar."""
        depths = self.worker.state().grammar_depth
        assert depths is not None
        return depths[1]

    @property
    def counts(self) -> list[int]:
        """Of each token in its output."""
        counts: list[int] = listed(self.worker.state().token_counts)[1]
        return counts

    @property
    def proposed(self) -> list[int]:
        """The next drafts, as the last step has cut them."""
        drafts: list[int] = listed(self.result.next_draft_tokens)[0]
        return drafts


def listed(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
