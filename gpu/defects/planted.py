"""What all planted defects share."""

from __future__ import annotations

import torch

from draftproof.gpu.options import read_options
from draftproof.gpu.slots import SlotMap
from draftproof.gpu.worker import DSparkWorker
from draftproof.reference.vocabulary import Collaborators, Config


class Planted(DSparkWorker):
    """The worker, made by the door's own signature: each subclass is its own factory.

    slot_map: what `self.slots` is made of.
    """

    slot_map: type[SlotMap] = SlotMap

    def __init__(
        self, config: Config, device: str, collaborators: Collaborators, **options: str
    ) -> None:
        super().__init__(config, torch.device(device), collaborators, read_options(**options))
        self.slots = self.slot_map(config.max_num_requests)
