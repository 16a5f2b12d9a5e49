"""Defects of captured graphs: what is frozen in them, what they are captured for, and around it."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.gpu.constants import ramp
from draftproof.gpu.defects.planted import Planted
from draftproof.gpu.graphs import Key, Path
from draftproof.gpu.inputs import Inputs
from draftproof.gpu.operations import Verified
from draftproof.gpu.slots import is_padding
from draftproof.reference.vocabulary import Batch, Collaborators, Config


class _Graphed(Planted):
    """With graphs, unless told otherwise."""

    def __init__(
        self, config: Config, device: str, collaborators: Collaborators, **options: str
    ) -> None:
        super().__init__(config, device, collaborators, **{"graphs": "on", **options})


class StampFrozen(_Graphed):
    """Confidences are stamped with the host's draft number of the capture; no public report."""

    def _draft(self, inputs: Inputs, verified: Verified) -> Tensor:
        drafts = super()._draft(inputs, verified)
        slots = self._generation_slots(inputs)
        self.memory.confidence_stamp.index_fill_(0, slots, self.draft_seq)
        return drafts


class RealRowsFrozen(_Graphed):
    """How many rows are no padding is counted on the host, so frozen at capture: GRAPH-3."""

    def _generation_slots(self, inputs: Inputs) -> Tensor:
        slots, real = super()._generation_slots(inputs), len(self.slots.owners)
        return torch.where(ramp(len(slots), slots.device) < real, slots, self.scratch)


class KeyWithoutDraftLen(_Graphed):
    """A graph is taken for its batch size alone, whatever its draft length: GRAPH-5."""

    def _key(self, batch: Batch) -> Key | None:
        key = super()._key(batch)
        return key and key._replace(draft_len=0)


class KeyWithoutGreedy(_Graphed):
    """A graph captured in an all-greedy step serves sampled ones too; no public report."""

    def _key(self, batch: Batch) -> Key | None:
        key = super()._key(batch)
        return key and key._replace(all_greedy=True)


class WarmUpLeavesTrace(_Graphed):
    """The forward before a capture counts: its step happens twice; no public report."""

    def _warm_up(self, path: Path) -> None:
        path()


class PaddingKeepsSlots(_Graphed):
    """Padding rows of a replay keep the slots that their rows had before: GRAPH-7."""

    def _slots(self, batch: Batch) -> list[int]:
        slots, before = super()._slots(batch), self.memory.batch_to_slot.tolist()
        kept = [min(slot, self.scratch) for slot in before[: len(slots)]]
        ids = [row.request_id for row in batch.rows]
        return [
            old if is_padding(i, self.config.max_draft_len) else new
            for i, old, new in zip(ids, kept, slots, strict=True)
        ]
