"""The DSpark worker on torch tensors, behind the door of `reference/vocabulary.py`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from draftproof.gpu.advance import seed
from draftproof.gpu.checks import check_batch, check_rows
from draftproof.gpu.dispatch import operations
from draftproof.gpu.graphs import Graphs, Key, Path, key_of
from draftproof.gpu.inputs import Inputs, int_tensor
from draftproof.gpu.memory import allocate
from draftproof.gpu.operations import Accepted, Counters, Prompt, Verified
from draftproof.gpu.options import Options, read_options
from draftproof.gpu.publish import publish
from draftproof.gpu.slots import Changes, SlotMap, is_dummy
from draftproof.gpu.state import show
from draftproof.gpu.vocabulary import Drafting, drafting
from draftproof.gpu.window import Chunk, prompt_rows
from draftproof.reference.vocabulary import (
    SEAMS,
    UNDONE,
    Batch,
    Collaborators,
    Config,
    ContextRow,
    GenerationRow,
    StepResult,
    WorkerState,
)


def make(config: Config, device: str, collaborators: Collaborators, **options: str) -> DSparkWorker:
    """A worker for this configuration on the device, "cpu" or "cuda".

    Options: dtype, that of the windows, "bfloat16" (default) or "float32", which both hold every
    component exactly; kernels, "eager" (default) or "triton": torch's operations or Triton kernels,
    interpreted on a CPU; graphs, "off" (default) or "on": steps of mode "replay" replay a captured
    graph, on a CPU recorded calls. Raises ValueError for another option or value.
    """
    return DSparkWorker(config, torch.device(device), collaborators, read_options(**options))


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
        options: Options,
    ) -> None:
        self.config = config
        self.device = device
        self.at = collaborators.at
        self.slots = SlotMap(config.max_num_requests)
        self.operations = operations(options.kernels, device)
        self.drafting = drafting(config, collaborators.draft_law, device)
        self.memory = allocate(config, device, options.dtype)
        self.inputs = self.memory.inputs
        self.graphs = Graphs(device) if options.graphs else None
        self.scratch = config.max_num_requests
        self.draft_seq = 0
        self.rows = 0

    @torch.inference_mode()
    def prepare(self, batch: Batch) -> None:
        """Section 3. Raises BatchError, changing nothing. A warm-up changes nothing here."""
        check_rows(batch, self.config)
        if batch.mode not in UNDONE:
            self._admit(batch)

    @torch.inference_mode()
    def forward(self, batch: Batch) -> StepResult:
        """Sections 4 to 9, for the batch last given to `prepare`.

        Raises BatchError, changing nothing. Lets the exceptions of `Collaborators.at` pass.
        """
        check_batch(batch, self.config)
        saved = (self.rows, self.memory.saved()) if batch.mode in UNDONE else None
        try:
            return self._forward(batch)
        finally:
            if saved is not None:
                self.rows, tensors = saved
                self.memory.restore(tensors)

    @torch.inference_mode()
    def state(self) -> WorkerState:
        """The state after the last completed step, copied."""
        return show(self.memory, self.slots, self.rows, self.draft_seq)

    def _forward(self, batch: Batch) -> StepResult:
        self.inputs.write(batch, self._slots(batch), self.draft_seq)
        self.rows = len(batch.rows)
        key = None if self.graphs is None else self._key(batch)
        return self._step(batch, self.at) if key is None else self._graphed(batch, key)

    def _step(self, batch: Batch, at: Callable[[str], None]) -> StepResult:
        inputs = self.inputs.read(batch, self.operations.uniforms)
        at("accept")
        verified = self._verify(inputs)
        at("seed")
        if batch.contexts:
            self._seed(batch, inputs)
        at("draft")
        drafts = inputs.drafts
        if batch.generations:
            self._store(inputs, verified)
            if batch.draft_len:
                drafts = self._draft(inputs, verified)
        if batch.contexts and batch.draft_len:
            self._publish_context_probs(inputs)
        at("publish")
        return publish(batch, inputs.context_tokens, verified.tokens, verified.counts, drafts)

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

    def _apply(self, changes: Changes) -> None:
        self.memory.clear(changes.cleared)
        self.memory.neutralise(changes.admitted)

    def _slots(self, batch: Batch) -> list[int]:
        """`batch_to_slot`: one per row, padding included."""
        return [self._slot(row) for row in batch.rows]

    def _slot(self, row: ContextRow | GenerationRow) -> int:
        """Where a row reads; a prompt that starts anew reads scratch (section 16, row 10)."""
        if isinstance(row, ContextRow) and row.first_position == 0:
            return self.scratch
        slot = self.slots.find(row.request_id, row.incarnation)
        return self.scratch if slot is None else slot

    # graphs

    def _key(self, batch: Batch) -> Key | None:
        """The graph of this step, None if it runs eagerly."""
        return key_of(batch)

    def _graphed(self, batch: Batch, key: Key) -> StepResult:
        """A step by its graph, which is captured here if it is the first of its kind.

        A graph is one piece of work for the device: its seams are passed around it.
        """
        assert self.graphs is not None
        *before, last = SEAMS
        for seam in before:
            self.at(seam)
        if key not in self.graphs:
            path = partial(self._step, batch, lambda seam: None)
            with self.graphs.warming_up():
                self._warm_up(path)
            self.graphs.capture(key, path)
        replayed = batch.mode == "replay"
        result = self.graphs.replay(key) if replayed else self.graphs.unspecified(key)
        self.at(last)
        return result

    def _warm_up(self, path: Path) -> None:
        """Run the path once, and leave no trace: the step itself is still to come."""
        saved = self.memory.saved()
        try:
            path()
        finally:
            self.memory.restore(saved)

    # forward

    def _generation_slots(self, inputs: Inputs) -> Tensor:
        """The window slot of each generation, int64 [G]."""
        return self.memory.batch_to_slot[self.rows - len(inputs.positions) : self.rows]

    def _counters(self, inputs: Inputs) -> Counters:
        """What acceptance moves on."""
        memory, slots = self.memory, self._generation_slots(inputs)
        state = memory.ctx_len, memory.valid_len, memory.initialized
        return Counters(*state, slots, inputs.positions, self.config.window_size)

    def _verify(self, inputs: Inputs) -> Verified:
        """Section 6, and the counters of section 7."""
        counters = self._counters(inputs)
        return self.operations.verify(inputs, self.memory.draft_probs, counters)

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
        places = (int_tensor(x, device) for x in self._places(chunks))
        prompt = Prompt(inputs.context_hidden, *places)
        self.operations.store(memory.windows, prompt, None)
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

    def _store(self, inputs: Inputs, verified: Verified) -> None:
        """Section 7: the accepted rows into the windows, from frame old + 1 on."""
        slots = self._generation_slots(inputs)
        accepted = Accepted(inputs.hidden, slots, verified.old, verified.counts)
        self.operations.store(self.memory.windows, None, accepted)

    def _draft(self, inputs: Inputs, verified: Verified) -> Tensor:
        """Section 8: a block of drafts, int64 [G, K]."""
        slots = self._generation_slots(inputs)
        return self.operations.draft(inputs, self.memory, slots, verified, self._drafting())

    def _drafting(self) -> Drafting:
        """What drafts are drawn from."""
        return self.drafting

    def _publish_context_probs(self, inputs: Inputs) -> None:
        """Contexts propose token 0, with certainty (sections 6 and 19)."""
        probs = self.memory.draft_probs
        if probs is not None:
            slots = inputs.context_seq_slots
            zeros = slots.new_zeros(len(slots), self.config.max_draft_len)
            self.operations.publish_one_hot(probs, slots, zeros)
