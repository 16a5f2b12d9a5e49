"""The door to the stand-in worker: their metadata from our batch, our words for their state.

    draftproof check --implementation tests/standin/door.py:make

This is the worked example of `docs/worker.md`; everything here is what an engineer writes once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from draftproof.reference.vocabulary import (
    ROW_COMPONENTS,
    UNDONE,
    Batch,
    BatchError,
    Collaborators,
    Config,
    ConfigError,
    StepResult,
    WorkerState,
)

sys.path.append(str(Path(__file__).parents[1]))  # Their worker is not installed; yours will be.
from standin.trtllm import (
    AttentionMetadata,
    DSparkDecodingConfig,
    DSparkSpecMetadata,
    DSv4DSparkDraftModel,
    DSv4DSparkWorker,
    InvalidBatchError,
    visible_rows,
)


class SeamedWorker(DSv4DSparkWorker):
    """Their worker, calling `at` at every seam, also where it would skip a phase."""

    at: Callable[[str], None]

    def _forward_impl(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        if not kwargs["logits"].isfinite().all():
            raise InvalidBatchError("logits are not all finite")
        return super()._forward_impl(*args, **kwargs)

    def sample_and_accept_draft_tokens(
        self, logits: Tensor, attn_metadata: AttentionMetadata, spec_metadata: DSparkSpecMetadata
    ) -> tuple[Tensor, Tensor]:
        self.at("accept")
        accepted = super().sample_and_accept_draft_tokens(logits, attn_metadata, spec_metadata)
        self.at("seed")
        if attn_metadata.num_contexts == 0:
            self.at("draft")
        return accepted

    def _seed_context_windows(self, *args: Any) -> None:
        super()._seed_context_windows(*args)
        self.at("draft")

    def _prepare_next_new_tokens(self, *args: Any) -> Tensor:
        self.at("publish")
        return super()._prepare_next_new_tokens(*args)


class Door:
    """One worker of theirs behind our door."""

    def __init__(self, config: Config, device: str, collaborators: Collaborators) -> None:
        if config.use_rejection_sampling or config.confidence_scheduling:
            raise ConfigError("this worker has neither rejection sampling nor ragged verification")
        if config.target_logits:
            raise ConfigError("this worker is given the target's tokens: no penalties, no grammars")

        def draft(windows: Tensor, start: int, bonus: int) -> list[int]:
            return collaborators.drafter(windows.long().tolist(), start, bonus)[0]

        attn = {"window_size": config.window_size, "head_dim": ROW_COMPONENTS}
        k, requests = config.max_draft_len, config.max_num_requests
        self.draft_model = DSv4DSparkDraftModel(k, config.num_stages, attn, draft)
        self.worker = SeamedWorker(DSparkDecodingConfig(k, requests), device)
        self.worker.at = collaborators.at
        self.worker.set_draft_model(self.draft_model)
        self.config, self.device = config, device

    def prepare(self, batch: Batch) -> None:
        rows, r = batch.rows, batch.draft_len
        if not 0 <= r <= self.config.max_draft_len:
            raise BatchError(f"runtime_draft_len {r} is not one of this worker's")
        firsts = [row.first_position for row in batch.contexts]
        firsts += [row.position for row in batch.generations]
        lengths = [row.length for row in batch.contexts] + [1 + r] * len(batch.generations)
        self.attn_metadata = AttentionMetadata(lengths, len(batch.contexts))
        if sum(lengths) > self.config.max_num_tokens:
            raise BatchError(f"{sum(lengths)} tokens do not fit into a step")
        if len(batch.drafts) != r * len(batch.generations):
            raise BatchError(f"{len(batch.drafts)} drafts, but each generation verifies {r}")
        self.positions = self.tensor(
            [first + i for first, n in zip(firsts, lengths, strict=True) for i in range(n)]
        )
        self.spec_metadata = DSparkSpecMetadata(
            _dspark_worker=self.worker,
            max_num_requests=self.config.max_num_requests,
            max_num_tokens=sum(lengths),
            hidden_size=ROW_COMPONENTS,
            request_ids=[row.request_id for row in rows],
            request_incarnations=[row.incarnation for row in rows],
            num_cached_tokens=firsts,
            num_generations=len(batch.generations),
            runtime_draft_len=r,
            draft_tokens=self.tensor(batch.drafts),
            is_cuda_graph=batch.mode in UNDONE,
            layers_to_capture=(0,),
        )
        try:
            self.spec_metadata.prepare()
        except InvalidBatchError as error:
            raise BatchError(str(error)) from error

    def forward(self, batch: Batch) -> StepResult:
        hidden = self.tensor(batch.hidden or [])
        if len(hidden) == ROW_COMPONENTS * len(self.positions):
            hidden = hidden.view(-1, ROW_COMPONENTS)
            self.spec_metadata.maybe_capture_hidden_states(0, hidden)
        else:  # The target left nothing, or too little.
            self.spec_metadata.captured_hidden_states = None
        target = self.tensor(batch.target_tokens)
        if len(target) != len(batch.contexts) + len(batch.generations) * (1 + batch.draft_len):
            raise BatchError(f"{len(target)} tokens of the target do not belong to this step")
        try:
            outputs = self.worker.forward(
                input_ids=self.positions,  # Only their number is read.
                position_ids=self.positions,
                hidden_states=None,
                logits=self.logits(target),
                attn_metadata=self.attn_metadata,
                spec_metadata=self.spec_metadata,
                draft_model=self.draft_model,
            )
        except InvalidBatchError as error:
            raise BatchError(str(error)) from error
        del outputs["logits"]
        return StepResult(**outputs, window_source="uniform")

    def state(self) -> WorkerState:
        worker, slots = self.worker, range(self.config.max_num_requests)
        ctx_len, valid_len = worker._ctx_len.tolist(), worker._valid_len.tolist()
        windows = [visible_rows(worker._kv_windows[s], ctx_len[s], valid_len[s]) for s in slots]
        return WorkerState(
            slots=dict(worker._req_to_slot),
            free_slots=list(worker._free_slots),
            batch_to_slot=worker._batch_to_slot.tolist(),
            ctx_len=ctx_len,
            valid_len=valid_len,
            initialized=worker._position_initialized.tolist(),
            windows=[window.tolist() for window in windows],
        )

    def logits(self, tokens: Tensor) -> Tensor:
        """One-hot rows; NaN where a target has gone wrong, and no token is meant."""
        v = self.config.vocab_size
        rows = torch.nn.functional.one_hot(tokens.clamp(0, v - 1), v).float()
        return rows.masked_fill(((tokens < 0) | (tokens >= v)).unsqueeze(1), float("nan"))

    def tensor(self, numbers: Any) -> Tensor:
        """A copy as int64: the harness overwrites the batch's arrays after the step."""
        return torch.tensor(numbers, dtype=torch.long, device=self.device)


def make(config: Config, device: str, collaborators: Collaborators, **options: object) -> Door:
    """The factory that `--implementation tests/standin/door.py:make` names."""
    if options:
        raise ConfigError(f"this door has no options, but got {sorted(options)}")
    return Door(config, device, collaborators)
