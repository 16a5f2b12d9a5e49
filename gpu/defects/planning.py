"""Defects of planned and ragged steps: whom to trust, how rows lie, what a window counts."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.gpu.constants import ramp
from draftproof.gpu.defects.bases import Repacked
from draftproof.gpu.defects.planted import Planted
from draftproof.gpu.inputs import Inputs
from draftproof.gpu.operations import Verified
from draftproof.gpu.planning import Ask, Planner
from draftproof.gpu.ragged import fill_bucket
from draftproof.reference.vocabulary import Batch, Collaborators, Config


class RowsStrided(Repacked):
    """Rows of a ragged step are taken to be 1 + K apart, whatever their windows: ROW-1, ROW-16."""

    def _read(self, batch: Batch) -> Inputs:
        inputs = super()._read(batch)
        if inputs.windows is None or inputs.sampling is not None:
            return inputs
        starts = ramp(len(inputs.windows), self.device) * (1 + batch.draft_len)
        return self._at(batch, inputs, starts)


class LayoutOfTheHost(Repacked):
    """Rows lie as if the host had shared them out evenly; windows are the device's: ROW-3, ROW-4.

    The total is right, so nothing leaves its array.
    """

    def _read(self, batch: Batch) -> Inputs:
        inputs = super()._read(batch)
        if inputs.windows is None or inputs.sampling is not None:
            return inputs
        count = len(inputs.windows)
        share = inputs.windows.sum() // max(1, count)
        return self._at(batch, inputs, ramp(count, self.device) * share)


class StampIgnored(Planted):
    """Confidences of drafts that no longer exist are trusted; no public report."""

    def _windows(self, ask: Ask) -> Tensor:
        trusted = ask.expected.expand_as(self.memory.confidence_stamp)
        return self.planner.windows(ask, trusted)


class ContextsDoNotCount(Planted):
    """The draft number stands still in a step with contexts only; no public report."""

    def _admit(self, batch: Batch) -> None:
        super()._admit(batch)
        self.draft_seq -= not batch.generations


class WindowWithoutAnchor(Planted):
    """A verify window of n is read as n drafts, besides the anchor: ROW-17."""

    def _verify(self, inputs: Inputs) -> Verified:
        if inputs.windows is not None:
            inputs = inputs._replace(windows=inputs.windows + 1)
        return super()._verify(inputs)


class PaddingWithoutWindow(Planted):
    """Padding rows verify nothing, not even an anchor; no public report."""

    def _windows(self, ask: Ask) -> Tensor:
        windows = super()._windows(ask)
        return torch.where(ramp(len(windows), windows.device) < ask.real, windows, 0)


class RawProbabilities(Planted):
    """Survivals are multiplied from probabilities before calibration; no public report."""

    def _windows(self, ask: Ask) -> Tensor:
        raw = torch.sigmoid(self.memory.confidence_logits)
        return super()._windows(ask._replace(confidences=raw))


class _Planning(Planted):
    """Plans in a way of its own."""

    planner_made: type[Planner]

    def __init__(
        self, config: Config, device: str, collaborators: Collaborators, **options: str
    ) -> None:
        super().__init__(config, device, collaborators, **options)
        self.planner = self.planner_made(config, self.device)


class _Searching(Planner):
    def _worth(self, values: Tensor) -> Tensor:
        return values.argmax()


class SearchesOn(_Planning):
    """Looks past a draft that does not pay for one that does; no public report.

    The paper's Appendix A: confidences of drafts not yet drawn then change the output's law.
    """

    planner_made = _Searching


class _OnePiece(Planner):
    def _filled(self, windows: Tensor, real: Tensor, bucket: int, widest: int) -> Tensor:
        room = widest - windows
        left = bucket - windows.sum() - (room.cumsum(0) - room)
        return windows + left.clamp(min=0).minimum(room)


class SlackInOnePiece(_Planning):
    """A bucket's slack goes to the first request until it is full, not round; no public report."""

    planner_made = _OnePiece


class _PaddingFirst(Planner):
    def _filled(self, windows: Tensor, real: Tensor, bucket: int, widest: int) -> Tensor:
        padding = ramp(len(windows), windows.device) >= real
        order = torch.sort(padding, descending=True, stable=True).indices
        filled = fill_bucket(windows[order], padding.sum(), bucket, widest)
        return torch.empty_like(filled).index_copy_(0, order, filled)


class SlackToPadding(_Planning):
    """A bucket's slack goes to padding rows first, and to requests last; no public report."""

    planner_made = _PaddingFirst
