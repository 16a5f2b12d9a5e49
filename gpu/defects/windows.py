"""Defects of what is stored in the windows, and where."""

from __future__ import annotations

import torch

from draftproof.gpu.constants import ramp
from draftproof.gpu.defects.planted import Planted
from draftproof.gpu.inputs import Inputs
from draftproof.gpu.operations import Verified
from draftproof.gpu.window import Chunk, staged
from draftproof.reference.vocabulary import Batch


class FrameOffByOne(Planted):
    """Accepted rows are stored at their position instead of the frame after it: POS-1."""

    def _store(self, inputs: Inputs, verified: Verified) -> None:
        super()._store(inputs, verified._replace(old=verified.old - 1))


class InterimRowsDropped(Planted):
    """Of the accepted rows only the last is stored, the interim ones are lost: POS-9, BONUS-1."""

    def _store(self, inputs: Inputs, verified: Verified) -> None:
        rows, counts = inputs.hidden, verified.counts
        last = rows[ramp(len(rows), rows.device), counts - 1].unsqueeze(1)
        alone = verified._replace(old=verified.start - 1, counts=torch.ones_like(counts))
        super()._store(inputs._replace(hidden=last), alone)


class RejectedRowStored(Planted):
    """The row of the first rejected draft is stored too, over the oldest frame: ROLL-2, ROLL-6."""

    def _store(self, inputs: Inputs, verified: Verified) -> None:
        most = inputs.hidden.shape[1]
        super()._store(inputs, verified._replace(counts=(verified.counts + 1).clamp(max=most)))


class MaskedColumnUndoesWrite(Planted):
    """A rejected row writes its column's old value back, at W < K over an accepted row.

    No public report: the public worker itself does so (section 16, row 3).
    """

    def _store(self, inputs: Inputs, verified: Verified) -> None:
        windows, rows = self.memory.windows, staged(inputs.hidden, self.config.num_stages)
        i = ramp(rows.shape[1], rows.device)
        column = (verified.old.unsqueeze(1) + 1 + i) % windows.shape[2]
        place = self._generation_slots(inputs).unsqueeze(1), slice(None), column
        accepted = (i < verified.counts.unsqueeze(1))[:, :, None, None]
        windows[place] = torch.where(accepted, rows, windows[place])


class ChunkAtLocalPositions(Planted):
    """Each prompt chunk is placed as if it were the first one, from frame 1 on: POS-2."""

    def _places(self, chunks: list[Chunk]) -> tuple[list[int], list[int], list[int]]:
        return super()._places([(slot, row, 0, length) for slot, row, _, length in chunks])


class ReusedPrefixVisible(Planted):
    """Behind a reused prefix the columns that it did not write are visible too: CTX-1."""

    def _seed(self, batch: Batch, inputs: Inputs) -> None:
        super()._seed(batch, inputs)
        memory, width = self.memory, self.config.window_size
        for row in batch.contexts:
            slot = self.slots.find(row.request_id, row.incarnation)
            if slot is not None:
                memory.valid_len[slot] = memory.ctx_len[slot].clamp(max=width)


class PromptsAloneNotStored(Planted):
    """A step of prompts alone is over before their rows are stored: CTX-3."""

    def _places(self, chunks: list[Chunk]) -> tuple[list[int], list[int], list[int]]:
        return super()._places(chunks if len(chunks) < self.rows else [])
