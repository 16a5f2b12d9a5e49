"""What planted defects of several files share: whom they choose by, and where they read rows."""

from __future__ import annotations

from torch import Tensor

from draftproof.gpu.choosing import Chooser
from draftproof.gpu.constants import ramp
from draftproof.gpu.defects.planted import Planted
from draftproof.gpu.guided import Matchers
from draftproof.gpu.inputs import Inputs
from draftproof.reference.vocabulary import ROW_COMPONENTS, Batch, Collaborators


class Choosing(Planted):
    """What the target's tokens are chosen by is of these classes."""

    chooser_type: type[Chooser] = Chooser
    matchers_type: type[Matchers] = Matchers

    def _chooser(self, collaborators: Collaborators) -> Chooser:
        guide, slots, vocab = (
            collaborators.guide,
            self.config.max_num_requests,
            self.config.vocab_size,
        )
        chooser = self.chooser_type(guide, self.memory, slots, vocab)
        chooser.matchers = self.matchers_type(guide, slots, vocab)
        return chooser


class Repacked(Planted):
    """Reads the packed rows of a ragged step at offsets of its own."""

    def _at(self, batch: Batch, inputs: Inputs, starts: Tensor) -> Inputs:
        """The step with generation g's rows from `starts[g]` on, int64 [G]."""
        arrays = self.inputs.arrays.device
        contexts, tokens = len(batch.contexts), sum(row.length for row in batch.contexts)
        rows = int(sum(batch.verify_lens or ()))
        places = starts.unsqueeze(1) + ramp(1 + batch.draft_len, starts.device)
        places = places.clamp(max=rows - 1)
        hidden = arrays["hidden"].view(-1, ROW_COMPONENTS)[tokens:]
        target = arrays["target_tokens"][contexts:]
        return inputs._replace(target=target[places], hidden=hidden[places].to(inputs.hidden.dtype))
