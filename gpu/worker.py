"""The DSpark worker on torch tensors, behind the door of `reference/vocabulary.py`."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.gpu.acceptance import strict
from draftproof.gpu.advance import advance, seed
from draftproof.gpu.checks import check_batch
from draftproof.gpu.constants import one_hot
from draftproof.gpu.exact_drafter import confidence, context_sum, draft_argmax, draft_sampled
from draftproof.gpu.inputs import Inputs, int_tensor, upload
from draftproof.gpu.memory import allocate
from draftproof.gpu.publish import publish
from draftproof.gpu.rejection import reject
from draftproof.gpu.slots import Changes, SlotMap, is_dummy
from draftproof.gpu.state import show
from draftproof.gpu.window import (
    Chunk,
    prompt_rows,
    staged,
    visible_columns,
    write_accepted,
    write_frames,
)
from draftproof.reference.vocabulary import (
    Batch,
    Collaborators,
    Config,
    ContextRow,
    GenerationRow,
    StepResult,
    WorkerState,
)

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}

UNDONE = ("warmup", "capture")
"""Modes of a step that leaves no trace (sections 4 and 11)."""


def make(config: Config, device: str, collaborators: Collaborators, **options: str) -> DSparkWorker:
    """A worker for this configuration on the device, "cpu" or "cuda".

    Options: dtype, that of the windows, "bfloat16" (default) or "float32"; both hold every
    component exactly. Raises ValueError for another option or value.
    """
    return DSparkWorker(config, torch.device(device), collaborators, windows_dtype(**options))


def windows_dtype(dtype: str = "bfloat16", **unknown: str) -> torch.dtype:
    """What the options of `make` say about the windows. Raises ValueError."""
    if unknown:
        raise ValueError(f"unknown option {next(iter(unknown))!r}: the only one is 'dtype'")
    if dtype not in DTYPES:
        raise ValueError(f"option dtype is {dtype!r}: it must be 'bfloat16' or 'float32'")
    return DTYPES[dtype]


class DSparkWorker:
    """Sections 2 to 9: slots on the host, everything else on the device.

    The generation path of `forward` never waits for the device, and its shapes follow from the
    host's numbers alone, so that a CUDA graph can hold it.
    """

    def __init__(
        self,
        config: Config,
        device: torch.device,
        collaborators: Collaborators,
        dtype: torch.dtype,
    ) -> None:
        self.config = config
        self.device = device
        self.at = collaborators.at
        self.slots = SlotMap(config.max_num_requests)
        self.memory = allocate(config, device, dtype)
        self.scratch = config.max_num_requests
        self.draft_seq = 0
        self.rows = 0
        self._saved: tuple[int, list[Tensor]] | None = None

    @torch.inference_mode()
    def prepare(self, batch: Batch) -> None:
        """Section 3. Raises BatchError, changing nothing.

        A warm-up changes nothing but `batch_to_slot`, and that until the end of its forward.
        """
        check_batch(batch, self.config)
        self._undo()
        if batch.mode in UNDONE:
            self._saved = self.rows, [tensor.clone() for tensor in self.memory.tensors()]
        else:
            self._admit(batch)
        slots = [self._slot(row) for row in batch.rows]
        self.memory.batch_to_slot[: len(slots)] = int_tensor(slots, self.device)
        self.rows = len(slots)

    @torch.inference_mode()
    def forward(self, batch: Batch) -> StepResult:
        """Sections 4 to 9, for the batch last given to `prepare`.

        Lets the exceptions of `Collaborators.at` pass.
        """
        try:
            return self._step(batch)
        finally:
            self._undo()

    @torch.inference_mode()
    def state(self) -> WorkerState:
        """The state after the last completed step, copied."""
        return show(self.memory, self.slots, self.rows, self.draft_seq)

    def _step(self, batch: Batch) -> StepResult:
        inputs = upload(batch, self.config, self.device, self.memory.windows.dtype)
        self.at("accept")
        tokens, counts = self._accept(inputs)
        self.at("seed")
        if batch.contexts:
            self._seed(batch, inputs)
        self.at("draft")
        drafts = inputs.drafts
        if batch.generations:
            slots, start, valid = self._advance(inputs, counts)
            if batch.draft_len:
                bonus = tokens.gather(1, counts.unsqueeze(1) - 1).squeeze(1)
                drafts = self._draft(inputs, slots, start, valid, bonus)
        if batch.contexts and batch.draft_len:
            self._publish_context_probs(inputs)
        self.at("publish")
        return publish(batch, inputs.context_tokens, tokens, counts, drafts)

    # prepare

    def _admit(self, batch: Batch) -> None:
        """Departures, arrivals and the draft number (section 3)."""
        block, changes = self.config.max_draft_len, Changes()
        present = {row.request_id: row.incarnation for row in batch.rows}
        self.slots.retire(present, changes)
        for row in batch.generations:
            if not is_dummy(row.request_id, block):
                self.slots.assign(row.request_id, row.incarnation, False, changes)
        self._apply(changes)
        self.draft_seq += 1
        self.memory.draft_seq.fill_(self.draft_seq)

    def _apply(self, changes: Changes) -> None:
        self.memory.clear(changes.cleared)
        self.memory.neutralise(changes.admitted)

    def _slot(self, row: ContextRow | GenerationRow) -> int:
        """Where a row reads; a prompt that starts anew reads scratch (section 16, row 10)."""
        if isinstance(row, ContextRow) and row.first_position == 0:
            return self.scratch
        slot = self.slots.find(row.request_id, row.incarnation)
        return self.scratch if slot is None else slot

    def _undo(self) -> None:
        """Put back what the last warm-up found; without one, nothing."""
        if self._saved is not None:
            self.rows, saved = self._saved
            for tensor, before in zip(self.memory.tensors(), saved, strict=True):
                tensor.copy_(before)
            self._saved = None

    # forward

    def _accept(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Section 6: new_tokens int64 [G, 1 + r] and their numbers int64 [G]."""
        probs = self.memory.draft_probs
        if inputs.sampling is None or probs is None:
            return strict(inputs.drafts, inputs.target, inputs.windows)
        return reject(
            inputs.drafts, probs[inputs.generation_seq_slots], inputs.sampling, inputs.windows
        )

    def _seed(self, batch: Batch, inputs: Inputs) -> None:
        """Section 5, driven by the host, which knows all lengths."""
        changes, width = Changes(), self.config.window_size
        chunks: list[Chunk] = []
        first = 0
        for row in batch.contexts:
            if row.length and not is_dummy(row.request_id, self.config.max_draft_len):
                slot = self._context_slot(row, batch.mode in UNDONE, changes)
                chunks.append((slot, first, row.first_position, row.length))
            first += row.length
        self._apply(changes)
        memory, device = self.memory, self.device
        sources, slots, frames = (int_tensor(x, device) for x in self._places(chunks))
        rows = staged(inputs.context_hidden[sources], self.config.num_stages)
        write_frames(memory.windows, slots, frames, rows)
        owners = int_tensor([slot for slot, *_ in chunks], device)
        ends = int_tensor([position + length for *_, position, length in chunks], device)
        lengths = int_tensor([length for *_, length in chunks], device)
        counters = memory.ctx_len, memory.valid_len, memory.initialized
        seed(*counters, owners, ends, lengths, width)

    def _places(self, chunks: list[Chunk]) -> tuple[list[int], list[int], list[int]]:
        """Which prompt rows are stored, and where: token rows, slots, frames."""
        return prompt_rows(chunks, self.config.window_size)

    def _context_slot(self, row: ContextRow, undone: bool, changes: Changes) -> int:
        """In a warm-up nobody moves, and the unknown are seeded into scratch."""
        if undone:
            return self._slot(row)
        reset = row.first_position == 0
        return self.slots.assign(row.request_id, row.incarnation, reset, changes)

    def _advance(self, inputs: Inputs, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Section 7: slots, start and valid length of each generation, int64 [G] each."""
        slots = self.memory.batch_to_slot[self.rows - len(counts) : self.rows]
        old, start, valid = self._count(slots, inputs.positions, counts)
        self._store(slots, old, counts, staged(inputs.hidden, self.config.num_stages))
        return slots, start, valid

    def _count(
        self, slots: Tensor, positions: Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Move the counters on: old, start and valid length, int64 [G] each."""
        memory, width = self.memory, self.config.window_size
        counters = memory.ctx_len, memory.valid_len, memory.initialized
        return advance(*counters, slots, positions, counts, width)

    def _store(self, slots: Tensor, old: Tensor, counts: Tensor, rows: Tensor) -> None:
        """Write the accepted ones of the rows [G, R, stages, D], from frame old + 1 on."""
        write_accepted(self.memory.windows, slots, old, counts, rows)

    def _draft(
        self, inputs: Inputs, slots: Tensor, start: Tensor, valid: Tensor, bonus: Tensor
    ) -> Tensor:
        """Section 8: a block of drafts, int64 [G, K], and its confidences."""
        memory = self.memory
        frames, visible = visible_columns(start, valid, self.config.window_size)
        total = context_sum(memory.windows[slots], frames, visible)
        drafts = self._sample(inputs, total, start, bonus)
        memory.confidence_logits[slots] = confidence(total, bonus, drafts)
        memory.confidence_stamp[slots] = memory.draft_seq
        return drafts

    def _sample(self, inputs: Inputs, total: Tensor, start: Tensor, bonus: Tensor) -> Tensor:
        """A block of drafts, int64 [G, K]; its probabilities are remembered (section 19)."""
        vocab, probs = self.config.vocab_size, self.memory.draft_probs
        if inputs.sampling is None:
            drafts = draft_argmax(total, start, bonus, self.config.max_draft_len, vocab)
            if probs is not None:
                probs[inputs.generation_seq_slots] = one_hot(drafts, vocab)
            return drafts
        greedy, uniforms = inputs.sampling.greedy, inputs.sampling.draft_uniforms
        drafts, law = draft_sampled(total, start, bonus, greedy, uniforms, vocab)
        if probs is not None:
            probs[inputs.generation_seq_slots] = law
        return drafts

    def _publish_context_probs(self, inputs: Inputs) -> None:
        """Contexts propose token 0, with certainty (sections 6 and 19)."""
        probs = self.memory.draft_probs
        if probs is not None:
            zero = torch.zeros((), dtype=torch.int64, device=self.device)
            probs[inputs.context_seq_slots] = one_hot(zero, self.config.vocab_size)
