"""A stand-in for the window-owning DSpark worker of TensorRT-LLM (`DSv4DSparkWorker`).

It keeps that worker's public interface (names of classes, attributes and methods, shapes, the ring
of columns, the order of calls), so that the door is tried against one that is not ours. None of its
code is theirs. Where the public worker has a defect that `docs/semantics.md`, section 16, lists,
this one is right instead; each such place says "Row n".

What it leaves out: ragged verification, rejection sampling, confidence, the guided decoder, ranks
and CUDA graphs. There being no graphs on a CPU, `is_cuda_graph` marks warm-up forwards only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

ATTENTION_DP_DUMMY_REQUEST_ID = 0
CUDA_GRAPH_DUMMY_REQUEST_ID = 2**64 - 1

Draft = Callable[[Tensor, int, int], Sequence[int]]
"""(visible rows [stages, frames, head_dim], oldest first; start; bonus token) -> K tokens."""


class InvalidBatchError(ValueError):
    """Metadata that cannot be served; raised by `prepare` and `forward` before any change."""


@dataclass
class DSparkDecodingConfig:
    """What the worker reads of it. Row 4: the rows are counted here, not by some metadata."""

    max_draft_len: int
    max_num_requests: int


@dataclass
class AttentionMetadata:
    """The part of the attention metadata that the worker reads; `_seq_lens` is on the host."""

    _seq_lens: list[int]
    num_contexts: int

    @property
    def num_seqs(self) -> int:
        return len(self._seq_lens)

    @property
    def num_ctx_tokens(self) -> int:
        return sum(self._seq_lens[: self.num_contexts])


@dataclass
class DSparkSpecMetadata:
    """One step's metadata, and the buffer that the target's layers write hidden states to.

    Row 11: `request_incarnations` tells two lives of one request id apart.
    Row 10: `num_cached_tokens`, the tokens of each request before this step, tells a first chunk.
    """

    _dspark_worker: DSv4DSparkWorker
    max_num_requests: int
    max_num_tokens: int
    hidden_size: int
    request_ids: list[int]
    request_incarnations: list[int]
    num_cached_tokens: list[int]
    num_generations: int
    runtime_draft_len: int
    draft_tokens: Tensor  # [num_generations * runtime_draft_len]
    is_cuda_graph: bool = False
    layers_to_capture: tuple[int, ...] = ()
    captured_hidden_states: Tensor | None = None

    def __post_init__(self) -> None:
        new = self.draft_tokens.new_empty
        self.batch_indices_cuda = new(self.max_num_requests, dtype=torch.int)
        if self.layers_to_capture:
            shape = (self.max_num_tokens, self.hidden_size * len(self.layers_to_capture))
            self.captured_hidden_states = new(shape, dtype=torch.bfloat16)

    def prepare(self) -> None:
        """Bring the worker's slot map up to date with this batch; on the host."""
        worker, count = self._dspark_worker, len(self.request_ids)
        worker._check(self.request_ids)
        self.batch_indices_cuda[:count] = torch.arange(count)
        num_contexts = count - self.num_generations
        # Row 5: a warm-up changes no slot, and its forward brings back what stands here now.
        worker._saved = worker._snapshot() if self.is_cuda_graph else None
        if not self.is_cuda_graph:
            lives = zip(self.request_ids, self.request_incarnations, strict=True)
            worker._forget_departed(dict(lives))
            for request_id in filter(worker._is_real, self.request_ids[num_contexts:]):
                worker._assign_slot(request_id, reset=False)
        slots = [worker._req_to_slot.get(i, worker._scratch_slot) for i in self.request_ids]
        for i in range(num_contexts):
            if self.num_cached_tokens[i] == 0:
                slots[i] = worker._scratch_slot
        worker._batch_to_slot[:count] = torch.tensor(slots, dtype=torch.long)

    def maybe_capture_hidden_states(self, layer_id: int, hidden_states: Tensor) -> None:
        """Called by the target's layers: keep the rows of a layer that is captured."""
        if layer_id in self.layers_to_capture:
            first = self.layers_to_capture.index(layer_id) * self.hidden_size
            rows = self.get_hidden_states(len(hidden_states))
            rows[:, first : first + self.hidden_size] = hidden_states

    def get_hidden_states(self, num_tokens: int) -> Tensor:
        """The captured rows of this step, layers side by side."""
        if self.captured_hidden_states is None:
            raise InvalidBatchError("no hidden states were captured in this step")
        return self.captured_hidden_states[:num_tokens]


def visible_rows(ring: Tensor, last_frame: int, valid_len: int) -> Tensor:
    """The visible frames of one slot's ring [stages, W, head_dim], oldest first."""
    frames = torch.arange(last_frame - valid_len + 1, last_frame + 1, device=ring.device)
    return ring[:, frames % ring.shape[1]]


class DSv4DSparkDraftModel:
    """A test double: `draft` is backbone and heads; projecting a row puts the stage in its end."""

    def __init__(self, block_size: int, num_stages: int, attn: dict[str, int], draft: Draft):
        self.block_size = block_size
        self.num_stages = num_stages
        self._attn_params = attn  # window_size, head_dim
        self._draft = draft

    def write_context_windows(self, hidden: Tensor, positions: Tensor, ring: Tensor) -> None:
        """Store hidden [n, head_dim] at frames `positions` [n] of one slot's ring.

        Row 3: of more than W frames only the last W are written, so the newest wins.
        """
        size = ring.shape[1]
        columns = positions[-size:] % size
        for stage in range(self.num_stages):
            ring[stage, columns] = hidden[-size:]
            ring[stage, columns, -1] = stage

    def forward_batched(
        self, bonus: Tensor, start_pos: Tensor, kv_windows: Tensor, slots: Tensor, valid: Tensor
    ) -> Tensor:
        """Draft a block for every generation: tokens [G, K]."""
        rows = zip(slots.tolist(), start_pos.tolist(), valid.tolist(), bonus.tolist(), strict=True)
        return bonus.new_tensor(
            [self._draft(visible_rows(kv_windows[s], f, n), f, token) for s, f, n, token in rows]
        )


class DSv4DSparkWorker:
    """The worker: slots, windows, acceptance, and the sequence of calls in a forward."""

    def __init__(self, spec_config: DSparkDecodingConfig, device: str = "cpu"):
        self.spec_config = spec_config
        self.device = device
        self._req_to_slot: dict[int, int] = {}
        self._incarnations: dict[int, int] = {}  # request id -> life, of the last batch prepared
        self._free_slots = deque(range(spec_config.max_num_requests))
        self._scratch_slot = spec_config.max_num_requests
        self._graph_dummy_id_floor = CUDA_GRAPH_DUMMY_REQUEST_ID - spec_config.max_draft_len
        self._saved: tuple[dict[int, int], deque[int], list[Tensor]] | None = None

    def set_draft_model(self, draft_model: DSv4DSparkDraftModel) -> None:
        """Allocate for this draft model. Row 1: before the first step, so that none is special."""
        if draft_model.block_size != self.spec_config.max_draft_len:
            raise ValueError("block_size of the draft model must equal max_draft_len")
        size, rows, device = self._scratch_slot, self._scratch_slot + 1, self.device
        self._win, head_dim = (draft_model._attn_params[k] for k in ("window_size", "head_dim"))
        shape = (rows, draft_model.num_stages, self._win, head_dim)
        self._kv_windows = torch.zeros(shape, dtype=torch.bfloat16, device=device)
        self._ctx_len = torch.zeros(rows, dtype=torch.long, device=device)
        self._valid_len = torch.zeros(rows, dtype=torch.long, device=device)
        self._position_initialized = torch.zeros(rows, dtype=torch.bool, device=device)
        self._batch_to_slot = torch.full((size,), size, dtype=torch.long, device=device)
        counters = self._ctx_len, self._valid_len, self._position_initialized
        self._state = self._kv_windows, *counters, self._batch_to_slot

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """One step after the target's forward. A warm-up is undone whatever happens (Row 5)."""
        try:
            return self._forward_impl(*args, **kwargs)
        finally:
            if self._saved is not None:
                self._req_to_slot, self._free_slots, tensors = self._saved
                for tensor, old in zip(self._state, tensors, strict=True):
                    tensor.copy_(old)
            self._saved = None

    def _forward_impl(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        hidden_states: Tensor | None,
        logits: Tensor,
        attn_metadata: AttentionMetadata,
        spec_metadata: DSparkSpecMetadata,
        draft_model: DSv4DSparkDraftModel,
        resource_manager: object = None,
    ) -> dict[str, Tensor]:
        del hidden_states, resource_manager  # Other workers read them.
        num_contexts, positions = attn_metadata.num_contexts, position_ids.reshape(-1)
        spec_metadata.get_hidden_states(len(input_ids))  # Row 7: raises before any change.
        accepted, counts = self.sample_and_accept_draft_tokens(logits, attn_metadata, spec_metadata)
        if num_contexts > 0:
            self._seed_context_windows(draft_model, spec_metadata, attn_metadata, positions)
        drafts = accepted.new_zeros((attn_metadata.num_seqs, spec_metadata.runtime_draft_len))
        if attn_metadata.num_seqs > num_contexts:
            drafts[num_contexts:] = self._draft_gen_block_batched(
                draft_model, spec_metadata, attn_metadata, accepted, counts, positions
            )
        indices = spec_metadata.batch_indices_cuda[: attn_metadata.num_seqs]
        return {
            "logits": logits,
            "new_tokens": accepted,
            "new_tokens_lens": counts,
            "next_draft_tokens": drafts,
            "next_new_tokens": self._prepare_next_new_tokens(accepted, drafts, indices, counts),
        }

    def sample_and_accept_draft_tokens(
        self, logits: Tensor, attn_metadata: AttentionMetadata, spec_metadata: DSparkSpecMetadata
    ) -> tuple[Tensor, Tensor]:
        """Strict acceptance: tokens [B, 1 + r] and their counts [B], the bonus included."""
        target = logits.argmax(dim=-1).to(torch.int32)
        c, r = attn_metadata.num_contexts, spec_metadata.runtime_draft_len
        accepted = target.new_zeros((attn_metadata.num_seqs, 1 + r))
        accepted[:c, 0] = target[:c]
        accepted[c:] = target[c:].view(-1, 1 + r)
        drafts = spec_metadata.draft_tokens.view(spec_metadata.num_generations, r)
        matches = (drafts == accepted[c:, :r]).int()
        counts = torch.ones_like(accepted[:, 0])
        counts[c:] += matches.cumprod(dim=1).sum(dim=1).int()
        return accepted, counts

    def _seed_context_windows(
        self,
        draft_model: DSv4DSparkDraftModel,
        spec_metadata: DSparkSpecMetadata,
        attn_metadata: AttentionMetadata,
        positions: Tensor,
    ) -> None:
        """Store each chunk's rows: position p at frame p + 1. A chunk from 0 starts anew."""
        captured, end = spec_metadata.get_hidden_states(len(positions)), 0
        for i, length in enumerate(attn_metadata._seq_lens[: attn_metadata.num_contexts]):
            begin, end = end, end + length
            if length == 0:
                continue
            chunk = positions[begin:end]
            slot = self._assign_slot(spec_metadata.request_ids[i], reset=int(chunk[0]) == 0)
            self._ctx_len[slot] = chunk[-1] + 1
            self._valid_len[slot] = (self._valid_len[slot] + length).clamp(max=self._win)
            self._position_initialized[slot] = True
            ring = self._kv_windows[slot]
            draft_model.write_context_windows(captured[begin:end], chunk + 1, ring)

    def _advance_generation_state(
        self, slots: Tensor, num_accepted_tokens: Tensor, input_positions: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Last frame before and after this step. Row 2: the scratch row restarts at 0."""
        scratch = slots == self._scratch_slot
        old = self._ctx_len[slots].where(self._position_initialized[slots], input_positions)
        old = old.masked_fill(scratch, 0)
        valid = self._valid_len[slots].masked_fill(scratch, 0) + num_accepted_tokens
        self._ctx_len[slots] = old + num_accepted_tokens
        self._valid_len[slots] = valid.clamp(max=self._win)
        self._position_initialized[slots] = True
        return old, old + num_accepted_tokens

    def _draft_gen_block_batched(
        self,
        draft_model: DSv4DSparkDraftModel,
        spec_metadata: DSparkSpecMetadata,
        attn_metadata: AttentionMetadata,
        accepted_tokens: Tensor,
        num_accepted_tokens: Tensor,
        positions: Tensor,
    ) -> Tensor:
        """Advance every generation by its accepted rows, then draft: tokens [G, r]."""
        c, r = attn_metadata.num_contexts, spec_metadata.runtime_draft_len
        captured = spec_metadata.get_hidden_states(len(positions))
        slots = self._batch_to_slot[c : attn_metadata.num_seqs]
        counts = num_accepted_tokens[c:].long()
        base = attn_metadata.num_ctx_tokens + (1 + r) * torch.arange(len(slots)).to(slots)
        old, start = self._advance_generation_state(slots, counts, positions[base])
        for slot, row, last, n in zip(*map(Tensor.tolist, (slots, base, old, counts)), strict=True):
            frames, ring = torch.arange(last + 1, last + n + 1).to(base), self._kv_windows[slot]
            draft_model.write_context_windows(captured[row : row + n], frames, ring)
        if r == 0:
            return accepted_tokens.new_zeros((len(slots), 0))
        bonus = accepted_tokens[c:].gather(1, counts[:, None] - 1)[:, 0]
        windows, valid = self._kv_windows, self._valid_len[slots]
        return draft_model.forward_batched(bonus, start, windows, slots, valid)[:, :r]

    def _prepare_next_new_tokens(
        self, accepted_tokens: Tensor, drafts: Tensor, batch_indices: Tensor, counts: Tensor
    ) -> Tensor:
        """[bonus, next drafts] per row."""
        bonus = accepted_tokens[batch_indices, counts - 1]
        return torch.cat([bonus[:, None], drafts], dim=1)

    def _is_real(self, request_id: int) -> bool:
        return ATTENTION_DP_DUMMY_REQUEST_ID < request_id < self._graph_dummy_id_floor

    def _check(self, request_ids: list[int]) -> None:
        real = list(filter(self._is_real, request_ids))
        if len(request_ids) > self.spec_config.max_num_requests:
            raise InvalidBatchError(f"{len(request_ids)} rows exceed max_num_requests")
        if len(set(real)) != len(real):
            raise InvalidBatchError("a request id stands twice in the batch")

    def _forget_departed(self, incarnations: dict[int, int]) -> None:
        """Free the slots of requests that are not in this batch, or are there in another life."""
        for request_id in list(self._req_to_slot):
            if incarnations.get(request_id) != self._incarnations[request_id]:
                self._release(request_id)
        self._incarnations = incarnations

    def _assign_slot(self, req_id: int, reset: bool) -> int:
        """The slot of a request; a reset moves it to a cleared one."""
        if self._saved is not None and req_id not in self._req_to_slot:
            return self._scratch_slot  # Row 5: a warm-up takes no slot.
        if reset and req_id in self._req_to_slot:
            self._release(req_id)
        if req_id not in self._req_to_slot:
            if not self._free_slots:
                raise InvalidBatchError(f"no free slot for request {req_id}")
            self._clear(self._free_slots[0])
            self._req_to_slot[req_id] = self._free_slots.popleft()
        return self._req_to_slot[req_id]

    def _release(self, request_id: int) -> None:
        slot = self._req_to_slot.pop(request_id)
        self._clear(slot)
        self._free_slots.append(slot)

    def _clear(self, slot: int) -> None:
        for tensor in self._state[:4]:
            tensor[slot] = 0

    def _snapshot(self) -> tuple[dict[int, int], deque[int], list[Tensor]]:
        tensors = [tensor.clone() for tensor in self._state]
        return dict(self._req_to_slot), deque(self._free_slots), tensors
