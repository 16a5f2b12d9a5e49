"""What the worker keeps on the device (section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from draftproof.gpu.inputs import StaticInputs, int_tensor
from draftproof.reference.vocabulary import NEUTRAL_LOGIT, ROW_COMPONENTS, Config


@dataclass(frozen=True, slots=True)
class Memory:
    """Row S of everything per slot is the scratch row.

    windows: bfloat16 or float32 [S + 1, stages, W, D]; ctx_len, valid_len: int64 [S + 1];
    initialized: bool [S + 1]; confidence_logits: float32 [S + 2, K], confidence_stamp: int64
    [S + 2], the last row neutral for ever; draft_seq: int64 []; batch_to_slot: int64 [S];
    draft_probs: float32 [S + 1, K, V] by sequence slot, None without rejection sampling.
    With `target_logits`, by sequence slot: token_counts: int64 [S + 1, V], of the output;
    prompt_seen: bool [S + 1, V], what is in the prompt.
    clear_value: what cleared windows hold. inputs: what a step brings along; batch_to_slot and
    draft_seq are parts of it.
    """

    windows: Tensor
    ctx_len: Tensor
    valid_len: Tensor
    initialized: Tensor
    confidence_logits: Tensor
    confidence_stamp: Tensor
    draft_seq: Tensor
    batch_to_slot: Tensor
    draft_probs: Tensor | None
    clear_value: float
    inputs: StaticInputs
    token_counts: Tensor | None = None
    prompt_seen: Tensor | None = None

    def clear(self, slots: Sequence[int]) -> None:
        """Forget what the slots knew: counters and windows (section 3)."""
        if slots:
            index = int_tensor(slots, self.windows.device)
            self.windows.index_fill_(0, index, self.clear_value)
            self.ctx_len.index_fill_(0, index, 0)
            self.valid_len.index_fill_(0, index, 0)
            self.initialized.index_fill_(0, index, False)

    def neutralise(self, slots: Sequence[int]) -> None:
        """Make the slots' confidence rows neutral; the stamps are kept (section 3)."""
        if slots:
            index = int_tensor(slots, self.windows.device)
            self.confidence_logits.index_fill_(0, index, NEUTRAL_LOGIT)

    def tensors(self) -> list[Tensor]:
        """Every tensor above."""
        values = (getattr(self, name) for name in self.__slots__)
        return [value for value in values if isinstance(value, Tensor)]

    def saved(self) -> list[Tensor]:
        """A copy of every tensor, for `restore`, around a warm-up."""
        return [tensor.clone() for tensor in self.tensors()]

    def restore(self, saved: list[Tensor]) -> None:
        """Make everything as it was when `saved` was called."""
        for tensor, before in zip(self.tensors(), saved, strict=True):
            tensor.copy_(before)


def allocate(config: Config, device: torch.device, dtype: torch.dtype) -> Memory:
    """Memory as it is at the start; dtype: that of the windows."""
    slots, block = config.max_num_requests, config.max_draft_len
    clear_value = float("nan") if config.poison else 0.0
    window = (slots + 1, config.num_stages, config.window_size, ROW_COMPONENTS)
    draft_probs, inputs = None, StaticInputs(config, device, dtype)
    if config.use_rejection_sampling:
        shape = (slots + 1, block, config.vocab_size)
        draft_probs = torch.full(shape, clear_value, device=device)
    token_counts = prompt_seen = None
    if config.target_logits:
        token_counts = torch.zeros(slots + 1, config.vocab_size, dtype=torch.int64, device=device)
        prompt_seen = torch.zeros_like(token_counts, dtype=torch.bool)
    return Memory(
        windows=torch.full(window, clear_value, dtype=dtype, device=device),
        ctx_len=torch.zeros(slots + 1, dtype=torch.int64, device=device),
        valid_len=torch.zeros(slots + 1, dtype=torch.int64, device=device),
        initialized=torch.zeros(slots + 1, dtype=torch.bool, device=device),
        confidence_logits=torch.full((slots + 2, block), NEUTRAL_LOGIT, device=device),
        confidence_stamp=torch.zeros(slots + 2, dtype=torch.int64, device=device),
        draft_seq=inputs.draft_seq,
        batch_to_slot=inputs.batch_to_slot,
        draft_probs=draft_probs,
        clear_value=clear_value,
        inputs=inputs,
        token_counts=token_counts,
        prompt_seen=prompt_seen,
    )
