"""Workers that are right as long as everything is small, as public reports have it."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.gpu.choosing import Chooser
from draftproof.gpu.constants import ramp
from draftproof.gpu.defects.bases import Choosing
from draftproof.gpu.defects.planted import Planted
from draftproof.gpu.inputs import Inputs
from draftproof.gpu.operations import Verified
from draftproof.reference.vocabulary import Batch


class NinthDraftUnseen(Planted):
    """Drafts from the ninth on are not compared, as if they did not fit the tile."""

    def _verify(self, inputs: Inputs) -> Verified:
        verified = super()._verify(inputs)
        if inputs.drafts.shape[1] <= 8:
            return verified
        counts = verified.counts.clamp(max=8)
        self.memory.ctx_len[self._generation_slots(inputs)] += counts - verified.counts
        return verified._replace(counts=counts, start=verified.old + counts)


class ThirtyThirdRowEmpty(Planted):
    """Rows from the 33rd on draft from an empty window."""

    def _draft(self, inputs: Inputs, verified: Verified) -> Tensor:
        first = ramp(len(verified.valid), self.device) < 32
        valid = torch.where(first, verified.valid, 0)
        return super()._draft(inputs, verified._replace(valid=valid))


class WindowCut(Planted):
    """Columns from the 67th on are empty."""

    def _store(self, inputs: Inputs, verified: Verified) -> None:
        super()._store(inputs, verified)
        self.memory.windows[:, :, 66:] = self.memory.clear_value


class SixthStageUnwritten(Planted):
    """Stages from the sixth on store nothing."""

    def _store(self, inputs: Inputs, verified: Verified) -> None:
        super()._store(inputs, verified)
        self.memory.windows[:, 5:] = self.memory.clear_value


class FirstTileSampled(Planted):
    """The recovery token is drawn from the first 64 tokens: vllm issue 46560."""

    def _verify(self, inputs: Inputs) -> Verified:
        sampling = inputs.sampling
        if sampling is not None:
            probs = sampling.target_probs.clone()
            probs[..., 64:] = 0
            inputs = inputs._replace(sampling=sampling._replace(target_probs=probs))
        return super()._verify(inputs)


class _FirstWord(Chooser):
    def masks(self, batch: Batch, inputs: Inputs) -> Tensor | None:
        masks = super().masks(batch, inputs)
        if masks is None:
            return None
        masks = masks.clone()
        masks[:, 32:] = True
        return masks


class SecondWordIgnored(Choosing):
    """Of a grammar's mask the first 32 bits are looked at."""

    chooser_type = _FirstWord


class TableEnds(Planted):
    """Positions stop at the end of a table of 131,072."""

    def _draft(self, inputs: Inputs, verified: Verified) -> Tensor:
        start = verified.start.clamp(max=131_072)
        return super()._draft(inputs, verified._replace(start=start))
