"""The reference worker: the specification behind the door (semantics, sections 2-9)."""

from __future__ import annotations

from array import array
from contextlib import suppress

from draftproof.reference import acceptance, numbers
from draftproof.reference.answers import check_answer, check_step, verify_windows
from draftproof.reference.attention import drafter_rows, target_rows
from draftproof.reference.config import checked
from draftproof.reference.drafter import draft_block, scattered, soft_probs, window_sum
from draftproof.reference.planning import planned_windows
from draftproof.reference.ranks import Barrier
from draftproof.reference.sequences import Sequences, logit_rows
from draftproof.reference.slots import Slots
from draftproof.reference.vocabulary import (
    NEUTRAL_LOGIT,
    UNDONE,
    Batch,
    BatchError,
    Collaborators,
    Config,
    Frames,
    StepResult,
    WindowSource,
    WorkerState,
)
from draftproof.reference.window import Captured, Window

Tokens = list[int]


class Model:
    """The reference model. Fields are those of section 2; windows hold frames, not columns."""

    def __init__(self, config: Config, collaborators: Collaborators) -> None:
        self.config = config = checked(config)
        self.at = collaborators.at
        self.draft_law = collaborators.draft_law
        rows = config.max_num_requests
        self.windows = [Window(config.window_size, config.num_stages) for _ in range(rows)]
        self.neutral = [NEUTRAL_LOGIT] * config.max_draft_len
        self.confidence = [self.neutral] * (rows + 2)
        self.stamps = [0] * (rows + 2)
        self.slots = Slots(config, self._clear, self._admit)
        self.batch_to_slot: list[int] = []
        self.draft_seq = 0
        self.attention_rows: list[int] = []
        self.barrier = Barrier(config, collaborators)
        self.draft_probs: list[list[list[float]]] = [[] for _ in range(rows + 1)]
        self.sequences: Sequences | None = None
        if config.target_logits:
            self.sequences = Sequences(config, collaborators.guide)

    def prepare(self, batch: Batch) -> None:
        """Section 3. Raises BatchError, changing nothing, for a batch that cannot be served."""
        check_step(self.config, batch)
        self.slots.check(batch)
        self._check_chunks(batch)
        if batch.mode in UNDONE:
            self.at("assign")
            return
        if self.sequences is not None:
            self.sequences.admit(batch)
        self.slots.forget_departed(batch)
        self.at("assign")
        for row in batch.generations:
            if not self.slots.is_dummy(row.request_id):
                self.slots.assign(row.request_id, row.incarnation, reset=False)
        scratch = self.slots.scratch
        self.batch_to_slot = [
            self.slots.slot_of(row.request_id) if row.first_position else scratch
            for row in batch.contexts
        ] + [self.slots.slot_of(row.request_id) for row in batch.generations]
        self.draft_seq += 1
        self.attention_rows = target_rows(batch)

    def plan(self, batch: Batch) -> list[int]:
        """Section 14: the verify windows of the planned step that was prepared. Changes nothing."""
        real = sum(not self.slots.is_dummy(row.request_id) for row in batch.generations)
        slots = self.batch_to_slot
        return planned_windows(self.config, batch, real, slots, self.stamps, self.draft_seq)

    def forward(self, batch: Batch) -> StepResult:
        """Section 4, and what happens behind it, also when it fails (sections 13 and 16)."""
        target = self.attention_rows
        self.attention_rows = drafter_rows(batch, self.config.max_draft_len)
        try:
            return self._serve(batch)
        finally:
            self.attention_rows = target

    def attention_now(self) -> list[int]:
        """What the attention is set up for at this moment."""
        return self.attention_rows

    def _serve(self, batch: Batch) -> StepResult:
        """A forward but for the attention."""
        self.barrier.step(batch)
        refused = True
        try:
            check_answer(self.config, batch)
            refused = False
            result = self._forward(batch)
        except BaseException:
            self.barrier.cross_failed()
            if not refused and batch.mode not in UNDONE:
                for row in batch.rows:  # what the step left of their draft probabilities
                    self.draft_probs[row.seq_slot] = []
            with suppress(Exception):  # the first exception is the one that counts
                self.at("cleanup")
            raise
        self.at("cleanup")
        if self.sequences is not None and batch.mode not in UNDONE:
            self.sequences.completed(batch)
        return result

    def _forward(self, batch: Batch) -> StepResult:
        """Section 4. A warm-up passes every seam and leaves nothing behind (section 16, row 5)."""
        self.at("accept")
        new_tokens = self._accept(batch)
        undone = batch.mode in UNDONE
        if self.sequences is not None and not undone:
            self.sequences.commit(batch, new_tokens)
        assert batch.hidden is not None
        rows = Captured.of(Frames(batch.hidden.tobytes()), self.config.num_stages)
        self.at("seed")
        if not undone:
            self._seed(batch, rows)
        self.at("draft")
        blocks = [[0] * batch.draft_len for _ in new_tokens]
        if not undone:
            self._advance(batch, rows, new_tokens)
        self.barrier.cross()
        if batch.draft_len and batch.generations:
            self.at("sample")
        if not undone and batch.draft_len:
            blocks = self._draft(batch, new_tokens)
        self.at("drafted")
        self.at("publish")
        return StepResult(
            new_tokens=new_tokens,
            new_tokens_lens=[len(tokens) for tokens in new_tokens],
            next_draft_tokens=blocks,
            next_new_tokens=[
                [tokens[-1], *block] for tokens, block in zip(new_tokens, blocks, strict=True)
            ],
            window_source=_window_source(batch),
        )

    def state(self) -> WorkerState:
        """Section 2, as it would be compared. Shares no list that a later step changes."""
        windows, scratch = self.windows, [0]
        counts, prompts, depths = self.sequences.shown() if self.sequences else (None, None, None)
        return WorkerState(
            slots={request_id: slot for request_id, (slot, _) in self.slots.owned.items()},
            free_slots=list(self.slots.free),
            batch_to_slot=self.batch_to_slot,
            ctx_len=[window.last_frame for window in windows] + scratch,
            valid_len=[window.valid_len for window in windows] + scratch,
            initialized=[window.initialized for window in windows] + [False],
            windows=[window.stages for window in windows],
            confidence_logits=list(self.confidence),
            confidence_stamp=list(self.stamps),
            draft_seq=self.draft_seq,
            draft_probs=self.draft_probs[:-1],
            attention_rows=self.attention_rows,
            token_counts=counts,
            prompt_seen=prompts,
            grammar_depth=depths,
        )

    def _clear(self, slot: int) -> None:
        self.windows[slot].clear()

    def _admit(self, slot: int) -> None:
        self.confidence[slot] = self.neutral  # the stamp is kept

    def _check_chunks(self, batch: Batch) -> None:
        for row in batch.contexts:
            slot, incarnation = self.slots.owned.get(row.request_id, (0, None))
            window = self.windows[slot]
            if incarnation == row.incarnation and row.first_position and row.length:
                expected = window.last_frame
                if window.initialized and row.first_position != expected:
                    raise BatchError(
                        f"chunk of request {row.request_id} starts at {row.first_position}, "
                        f"but its last one ended before {expected}"
                    )

    def _accept(self, batch: Batch) -> list[Tokens]:
        """New tokens per row (section 6)."""
        contexts = len(batch.contexts)
        target_tokens = batch.target_tokens
        if self.sequences is not None:
            target_tokens = self._choose(batch, self.sequences)
        accepted: list[Tokens] = [[token] for token in target_tokens[:contexts]]
        row = 0
        for g, window in enumerate(verify_windows(batch)):
            drafts = batch.drafts[g * batch.draft_len : (g + 1) * batch.draft_len].tolist()
            if batch.target_probs is None:
                target = target_tokens[contexts + row : contexts + row + window]
                accepted.append(acceptance.strict(drafts, target.tolist()))
            else:
                accepted.append(self._reject(batch, batch.target_probs, g, row, window, drafts))
            row += window
        return accepted

    def _choose(self, batch: Batch, sequences: Sequences) -> array[int]:
        """The target's own tokens, from its logits (section 19)."""
        assert batch.target_logits is not None, "checked by check_answer"
        r, vocab = batch.draft_len, self.config.vocab_size
        widths, tokens = [1] * len(batch.contexts) + [*verify_windows(batch)], array("q")
        for b, (row, width) in enumerate(zip(batch.rows, widths, strict=True)):
            logits = logit_rows(batch.target_logits, len(tokens), width, vocab)
            first = (b - len(batch.contexts)) * r
            drafts = batch.drafts[first : first + r] if b >= len(batch.contexts) else ()
            tokens.extend(sequences.target_tokens(row, logits, drafts))
        return tokens

    def _reject(
        self, batch: Batch, q: array[float], g: int, row: int, window: int, drafts: Tokens
    ) -> Tokens:
        """Rejection sampling of generation g, whose first logit row is `row`."""
        v = self.config.vocab_size
        generation = batch.generations[g]
        stored = self.draft_probs[generation.seq_slot][: generation.proposed]
        if len(stored) < min(generation.proposed, window - 1):
            raise BatchError(f"no draft probabilities for request {generation.request_id}")
        draft_probs = stored + [acceptance.one_hot(token, v) for token in drafts[len(stored) :]]
        target_probs = [q[i * v : (i + 1) * v].tolist() for i in range(row, row + window)]
        accepts = numbers.accept_uniforms(batch, g)
        n = acceptance.accepted(drafts, draft_probs, target_probs, accepts)
        uniform = numbers.recover_uniform(batch, g, n)
        return [*drafts[:n], acceptance.ending(n, draft_probs, target_probs, uniform)]

    def _seed(self, batch: Batch, rows: Captured) -> None:
        """Contexts take or keep a slot and store their rows (section 5)."""
        base = 0
        for row in batch.contexts:
            if row.length and not self.slots.is_dummy(row.request_id):
                slot = self.slots.assign(
                    row.request_id, row.incarnation, reset=row.first_position == 0
                )
                end = row.first_position + row.length
                self.windows[slot].append(rows, base, row.length, end)
            base += row.length

    def _advance(self, batch: Batch, rows: Captured, new_tokens: list[Tokens]) -> None:
        """Generations store exactly their accepted rows (section 7)."""
        base = sum(row.length for row in batch.contexts)
        contexts = len(batch.contexts)
        for g, verified in enumerate(verify_windows(batch)):
            slot = self.batch_to_slot[contexts + g]
            if slot != self.slots.scratch:
                window, count = self.windows[slot], len(new_tokens[contexts + g])
                old = window.last_frame if window.initialized else batch.generations[g].position
                window.append(rows, base, count, old + count)
            base += verified

    def _draft(self, batch: Batch, new_tokens: list[Tokens]) -> list[Tokens]:
        """A block per generation, cut to r; zeros per context (section 8)."""
        contexts, r = len(batch.contexts), batch.draft_len
        if self.config.use_rejection_sampling:
            placeholder = acceptance.one_hot(0, self.config.vocab_size)
            for row in batch.contexts:
                self.draft_probs[row.seq_slot] = [placeholder] * self.config.max_draft_len
        blocks = [[0] * r for _ in range(contexts)]
        for g in range(len(batch.generations)):
            slot = self.batch_to_slot[contexts + g]
            if slot == self.slots.scratch:
                blocks.append([0] * r)
                continue
            window = self.windows[slot]
            tokens, confidence = self._draft_block(batch, g, window, new_tokens[contexts + g])
            self.confidence[slot], self.stamps[slot] = confidence, self.draft_seq
            blocks.append(tokens[:r])
        return blocks

    def _draft_block(
        self, batch: Batch, g: int, window: Window, verified: Tokens
    ) -> tuple[Tokens, list[float]]:
        """All K tokens and confidence logits behind these new tokens; the p rows are kept."""
        k_max, generation, d2t = self.config.max_draft_len, batch.generations[g], self.config.d2t
        total = window_sum(window.first_frame, window.tags)
        v = self.config.vocab_size if d2t is None else len(d2t)
        if self.sequences is not None:
            with self.sequences.drafting(generation) as draw_guided:
                return draft_block(total, window.last_frame, verified[-1], k_max, v, draw_guided)
        if not self.config.use_rejection_sampling:
            return draft_block(total, window.last_frame, verified[-1], k_max, v)
        argmax = batch.target_probs is None or generation.greedy
        uniforms = [] if argmax else numbers.draft_uniforms(batch, g, len(verified), k_max)
        laws: list[list[float]] = []

        def draw(k: int, best: int) -> int:
            law = soft_probs(best, v)
            if self.draft_law is not None:
                law = list(self.draft_law[k])
                best = law.index(max(law))
            laws.append(acceptance.one_hot(best, v) if argmax else law)
            return best if argmax else acceptance.sample(law, uniforms[k])

        tokens, confidence = draft_block(total, window.last_frame, verified[-1], k_max, v, draw)
        self.draft_probs[generation.seq_slot] = [
            scattered(law, d2t, self.config.vocab_size) for law in laws
        ]
        return tokens if d2t is None else [d2t[token] for token in tokens], confidence


def _window_source(batch: Batch) -> WindowSource:
    """Exactly one source of verify windows is published (section 14)."""
    if batch.verify_lens is None:
        return "uniform"
    return "snapshot" if batch.contexts else "windows"


def make(config: Config, device: str, collaborators: Collaborators, **options: object) -> Model:
    """The model behind the door, as `draftproof.reference.model:make`."""
    if options:
        raise ValueError(f"the reference model takes no options, but got {sorted(options)}")
    return Model(config, collaborators)
