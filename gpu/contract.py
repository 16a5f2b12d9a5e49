"""What every draft worker has in common: how a forward begins and ends (sections 10, 13 and 16).

A subclass writes `_forward_impl`; `forward` belongs to the contract, for it is what puts the
attention back, crosses the ranks' barrier to its end, and lets a pipeline rank skip the worker.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch

from draftproof.gpu.attention import Attention
from draftproof.gpu.publish import window_source
from draftproof.gpu.ranks import Crossing
from draftproof.reference.vocabulary import Batch, Collaborators, Config, StepResult

IMPLEMENT = "_forward_impl"
NAMED = f"{IMPLEMENT}(batch) -> StepResult"


class DraftWorker(ABC):
    """The base class of draft workers.

    Raises TypeError for a subclass that brings a `forward` of its own, by itself or by a mixin,
    when that class is created; for one without `_forward_impl` when it is instantiated.

    last_in_pipeline: whether this pipeline rank is the last one; the others have no drafter.
    """

    last_in_pipeline = True

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        _check_forward(cls)

    def __new__(cls, *_: Any, **__: Any) -> DraftWorker:
        if IMPLEMENT in cls.__abstractmethods__:
            raise TypeError(f"{cls.__name__} has no {IMPLEMENT}: implement {cls.__name__}.{NAMED}")
        return super().__new__(cls)

    def __init__(self, config: Config, collaborators: Collaborators) -> None:
        self.config = config
        self.at = collaborators.at
        self.attention = Attention()
        self.crossing = Crossing(collaborators.barrier, config)

    @staticmethod
    def conforming(worker: object) -> None:
        """Called by whoever loads a worker, with that worker, for what gets past the class: its
        wrappers and stubs, and a `forward` replaced later on.

        Raises TypeError, with a sentence that says what to do, if it breaks the contract.
        """
        kind = type(worker)
        if not isinstance(worker, DraftWorker):
            raise TypeError(
                f"{kind.__name__} is no DraftWorker, so nothing cleans up behind its forward: "
                f"derive it from DraftWorker and implement {kind.__name__}.{NAMED}"
            )
        _check_forward(kind)
        if "forward" in vars(worker):
            raise TypeError(
                f"forward was replaced on an instance of {kind.__name__}: "
                f"replace {kind.__name__}.{IMPLEMENT} instead"
            )

    @abstractmethod
    def _forward_impl(self, batch: Batch) -> StepResult:
        """The work itself, sections 4 to 9."""

    @torch.inference_mode()
    def forward(self, batch: Batch) -> StepResult:
        """`_forward_impl`, between setting up the attention for drafting and cleaning up.

        The clean-up always runs. If it fails too, the first exception is the one that is raised,
        with a note about the second.
        """
        if not self.last_in_pipeline:
            return placeholders(batch)
        self.attention.begin_drafting(batch, self.config.max_draft_len)
        self.crossing.begin(batch)
        try:
            result = self._forward_impl(batch)
        except BaseException as first:
            try:
                self._clean_up()
            except Exception as second:  # noqa: BLE001 - whatever it is, it came second
                first.add_note(f"cleaning up after this failed as well: {second!r}")
            raise
        self._clean_up()
        return result

    def _clean_up(self) -> None:
        """Peers are never left waiting, and the attention is put back, whatever fails here."""
        try:
            self.at("cleanup")
        finally:
            try:
                self.crossing.finish()
            finally:
                self.attention.restore()


def _check_forward(kind: type) -> None:
    for base in kind.__mro__:
        if base is DraftWorker:
            return
        if "forward" in vars(base):
            whose = "" if base is kind else f", a base of {kind.__name__},"
            raise TypeError(
                f"{base.__name__}{whose} defines forward, which belongs to DraftWorker: "
                f"implement {base.__name__}.{NAMED}"
            )


def placeholders(batch: Batch) -> StepResult:
    """What a pipeline rank answers that is not the last: the right shapes, on the CPU, zeros.

    Every row has one token, so that whoever moves on by the counts stays in step.
    """
    rows, r = len(batch.rows), batch.draft_len
    return StepResult(
        new_tokens=torch.zeros(rows, 1 + r, dtype=torch.int64),
        new_tokens_lens=torch.ones(rows, dtype=torch.int64),
        next_draft_tokens=torch.zeros(rows, r, dtype=torch.int64),
        next_new_tokens=torch.zeros(rows, 1 + r, dtype=torch.int64),
        window_source=window_source(batch),
    )
