"""The DSpark worker on torch tensors, behind the door of `reference/vocabulary.py`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from draftproof.gpu.advance import seed
from draftproof.gpu.checks import check_batch, check_rows
from draftproof.gpu.choosing import Chooser
from draftproof.gpu.contract import DraftWorker
from draftproof.gpu.dispatch import operations
from draftproof.gpu.graphs import Graphs, Key, Path, key_of
from draftproof.gpu.guided import is_guided
from draftproof.gpu.inputs import Inputs, int_tensor
from draftproof.gpu.memory import allocate
from draftproof.gpu.operations import Accepted, Counters, Prompt, Verified
from draftproof.gpu.options import Options, device_named, read_options
from draftproof.gpu.planning import Ask, Planner
from draftproof.gpu.publish import publish
from draftproof.gpu.slots import Changes, SlotMap, is_dummy
from draftproof.gpu.state import show
from draftproof.gpu.vocabulary import Drafting, drafting
from draftproof.gpu.window import Chunk, prompt_rows
from draftproof.reference.vocabulary import (
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
    graph, on a CPU recorded calls. Raises ValueError for another option or value, or
    for a device that is not there.
    """
    return DSparkWorker(config, device_named(device), collaborators, read_options(**options))


class DSparkWorker(DraftWorker):
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
        super().__init__(config, collaborators)
        self.device = device
        self.slots = SlotMap(config.max_num_requests)
        self.operations = operations(options.kernels, device)
        self.drafting = drafting(config, collaborators.draft_law, device)
        self.memory = allocate(config, device, options.dtype)
        self.inputs = self.memory.inputs
        self.graphs = Graphs(device) if options.graphs else None
        self.planner = Planner(config, device)
        self.chooser = self._chooser(collaborators) if config.target_logits else None
        self.scratch = config.max_num_requests
        self.draft_seq = 0
        self.rows = 0

    @torch.inference_mode()
    def prepare(self, batch: Batch) -> None:
        """Section 3. Raises BatchError, changing nothing. A warm-up changes nothing here."""
        check_rows(batch, self.config)
        if batch.mode in UNDONE:
            self.at("assign")
        else:
            self._admit(batch)
            self.attention.set_up(batch)

    @torch.inference_mode()
    def plan(self, batch: Batch) -> list[int]:
        """Section 14: the windows of a planned step, made on the device and read back once.

        Called between `prepare` and `forward`. Raises BatchError, changing nothing.
        """
        real = sum(not is_dummy(row.request_id, self.config.max_draft_len) for row in batch.rows)
        self.planner.write(batch, self._slots(batch), real, self.draft_seq)
        windows: list[int] = self._windows(self.planner.read(batch)).tolist()
        return windows

    def _forward_impl(self, batch: Batch) -> StepResult:
        """Sections 4 to 9, for the batch last given to `prepare`.

        Raises BatchError, changing nothing. Lets the exceptions of `Collaborators.at` pass.
        """
        check_batch(batch, self.config)
        saved = (self.rows, self.memory.saved()) if batch.mode in UNDONE else None
        try:
            return self._run(batch)
        finally:
            if saved is not None:
                self.rows, tensors = saved
                self.memory.restore(tensors)

    def attention_now(self) -> list[int]:
        """Token rows that the attention is set up for at this moment, [B], on the host."""
        return list(self.attention.rows)

    @torch.inference_mode()
    def state(self) -> WorkerState:
        """The state after the last completed step, copied."""
        state = show(self.memory, self.slots, self.rows, self.draft_seq)
        state.attention_rows = list(self.attention.rows)
        if self.chooser is not None:
            state.grammar_depth = self.chooser.depths()
        return state

    def _run(self, batch: Batch) -> StepResult:
        self._bring(batch)
        key = None if self.graphs is None else self._key(batch)
        return self._step(batch, self.at) if key is None else self._graphed(batch, key)

    def _bring(self, batch: Batch) -> None:
        """Take what the step brings along to the device."""
        self.inputs.write(batch, self._slots(batch), self.draft_seq)
        self.rows = len(batch.rows)

    def _step(self, batch: Batch, at: Callable[[str], None]) -> StepResult:
        inputs = self._read(batch)
        at("accept")
        if self.chooser is not None:
            inputs = self.chooser.choose(batch, inputs)
        verified = self._verify(inputs)
        if self.chooser is not None:
            self.chooser.commit(batch, inputs, verified)
        at("seed")
        if batch.contexts:
            self._seed(batch, inputs)
        at("draft")
        drafts = inputs.drafts
        if batch.generations:
            self._store(inputs, verified)
        self.crossing.cross(at)
        if batch.generations and batch.draft_len:
            at("sample")
            drafts = self._draft(inputs, verified)
        if batch.contexts and batch.draft_len:
            self._publish_context_probs(inputs)
        at("drafted")
        at("publish")
        return publish(batch, inputs.context_tokens, verified.tokens, verified.counts, drafts)

    def _chooser(self, collaborators: Collaborators) -> Chooser:
        """What chooses the target's tokens."""
        slots, vocab = self.config.max_num_requests, self.config.vocab_size
        return Chooser(collaborators.guide, self.memory, slots, vocab)

    # prepare

    def _admit(self, batch: Batch) -> None:
        """Departures, arrivals and the draft number (section 3)."""
        block, changes = self.config.max_draft_len, Changes()
        present = {row.request_id: row.incarnation for row in batch.rows}
        self.slots.retire(present, changes)
        self._seam_before_slots(changes)
        for row in batch.generations:
            if not is_dummy(row.request_id, block):
                self.slots.assign(row.request_id, row.incarnation, False, changes)
        self._apply(changes)
        self.draft_seq += 1
        if self.chooser is not None:
            self.chooser.admit(batch)

    def _seam_before_slots(self, changes: Changes) -> None:
        """Whoever has left has left, also if nobody can come."""
        try:
            self.at("assign")
        except BaseException:
            self._apply(changes)
            raise

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
        """The graph of this step, None if it runs eagerly, as guided steps do."""
        return None if is_guided(batch) else key_of(batch)

    def _graphed(self, batch: Batch, key: Key) -> StepResult:
        """A step by its graph, which is captured here if it is the first of its kind.

        A graph is one piece of work for the device: its seams are passed around it.
        """
        assert self.graphs is not None
        for seam in ("accept", "seed", "draft"):
            self.at(seam)
        self.crossing.cross(self.at)
        if batch.draft_len:
            self.at("sample")
        if key not in self.graphs:
            path = partial(self._step, batch, lambda seam: None)
            with self.graphs.warming_up():
                self._warm_up(path)
            self.graphs.capture(key, path)
        replayed = batch.mode == "replay"
        result = self.graphs.replay(key) if replayed else self.graphs.unspecified(key)
        self.at("drafted")
        self.at("publish")
        return result

    def _warm_up(self, path: Path) -> None:
        """Run the path once, and leave no trace: the step itself is still to come."""
        saved = self.memory.saved()
        try:
            path()
        finally:
            self.memory.restore(saved)

    # plan and forward

    def _windows(self, ask: Ask) -> Tensor:
        """The verify windows of a planned step, int64 [G]."""
        return self.planner.windows(ask, self.memory.confidence_stamp)

    def _read(self, batch: Batch) -> Inputs:
        """The step as it was brought to the device."""
        return self.inputs.read(batch, self.operations.uniforms)

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
        slots, chooser = self._generation_slots(inputs), self.chooser
        if chooser is not None and chooser.walkers is not None:
            return chooser.draft(slots, verified, chooser.walkers)
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
