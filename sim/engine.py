"""The serving engine: who is in the next batch, and who gets what came out of the last one."""

from __future__ import annotations

from draftproof.reference.config import lookup, padded_size
from draftproof.reference.lengths import deliverable, fit_drafts
from draftproof.reference.vocabulary import (
    IDLE_ID,
    PADDING_ID_BASE,
    UNDONE,
    Batch,
    Config,
    ContextRow,
    GenerationRow,
    StepResult,
)
from draftproof.sim import journal as log
from draftproof.sim.assembly import Rows, assemble
from draftproof.sim.events import AnyEvent, Cancel, Pause, Recompute, Step, Submit, Warmup
from draftproof.sim.requests import Request
from draftproof.sim.target import prompt_token

WARMUP_ID = 2**32
"""First id of the made-up requests of a warm-up, which nobody ever submits."""

WIDE = 32
"""By how many bits an id is shifted that the lower ones say nothing of."""


class Engine:
    """Turns events into batches and results into tokens, one step at a time.

    Results are delivered before the next batch is built, so that a cancel, and a new request under
    the same id, may come between a forward and its delivery (semantics, section 15).
    """

    def __init__(self, config: Config, journal: log.Journal) -> None:
        self.config = config
        self.journal = journal
        self.waiting: list[Request] = []
        self.running: list[Request] = []  # admitted, at most S, in order of admission
        self.lives: dict[int, Request] = {}  # the same by incarnation
        self.seq_slots = list(range(config.max_num_requests))
        self.submitted: set[int] = set()  # ordinals
        self.last_departed: int | None = None
        self.forwards = 0
        self.pending: tuple[Batch, StepResult] | None = None

    @property
    def everybody(self) -> list[Request]:
        """The requests that have not departed, admitted ones first."""
        return [*self.running, *self.waiting]

    @property
    def live(self) -> list[int]:
        """Their ordinals."""
        return [request.ordinal for request in self.everybody]

    # What the schedule does

    def handle(self, event: AnyEvent) -> Batch | None:
        """Apply one event; a Step or a Warmup returns the batch to run."""
        if isinstance(event, Step):
            self.settle()
            return self._step(event)
        if isinstance(event, Warmup):
            return self._warmup(event)
        if isinstance(event, Submit):
            self._submit(event)
        elif (request := self._find(event.request)) is not None:
            if isinstance(event, Cancel):
                self._depart(request, "cancelled")
            elif isinstance(event, Pause):
                request.pause = event.steps
            elif isinstance(event, Recompute):
                self.settle()
                if request in self.running:
                    request.restart()
                    self.journal.write(log.Restarted(request.incarnation))
        return None

    def completed(self, batch: Batch, result: StepResult) -> None:
        """The worker has answered; the result is delivered later."""
        self.journal.write(log.Answered(result))
        if batch.mode not in UNDONE:
            self.pending = (batch, result)

    def failed(self, batch: Batch) -> None:
        """A forward failed: every admitted request fails, a warm-up's failure hurts nobody."""
        self.journal.write(log.Answered(None))
        if batch.mode not in UNDONE:
            for request in list(self.running):
                self._depart(request, "failed")

    def settle(self) -> None:
        """Deliver what the last forward brought."""
        if self.pending is None:
            return
        (batch, result), self.pending = self.pending, None
        for b, row in enumerate(batch.rows):
            request = self._recipient(row)
            if request is not None:
                self._deliver(batch, result, b, row, request)

    # What planted engine defects replace (`draftproof.fuzz.engine_defects`)

    def _draft_len(self, event: Step, size: int) -> int:
        """r of a step over `size` rows, padding not counted (semantics, section 10)."""
        if self.config.draft_len_schedule is None and event.draft_len is not None:
            return min(event.draft_len, self.config.max_draft_len)
        return lookup(self.config, size)

    def _drafts(self, request: Request, row: int, draft_len: int) -> list[int]:
        """The drafts to verify for a request whose generation row is `row`."""
        return fit_drafts(request.drafts, draft_len)

    def _propose(self, request: Request, row: int, drafts: list[int]) -> None:
        """Keep what was drafted for a request in generation row `row`."""
        request.drafts = drafts

    def _kept(self, request: Request, tokens: list[int]) -> list[int]:
        """The tokens of an accepted run that are emitted (semantics, section 15)."""
        return deliverable(tokens, request.asked.stop, request.room)

    def _recipient(self, row: ContextRow | GenerationRow) -> Request | None:
        """Whose results these are: the incarnation that produced them, if it still lives."""
        return self.lives.get(row.incarnation)

    # How it does it

    def _find(self, ordinal: int) -> Request | None:
        return next((request for request in self.everybody if request.ordinal == ordinal), None)

    def _submit(self, event: Submit) -> None:
        if event.request in self.submitted:
            return  # an ordinal names one request
        self.submitted.add(event.request)
        ids = {request.request_id for request in self.everybody}
        request_id = event.request + 1
        if event.numbering == "wide":
            request_id = request_id + 1 << WIDE  # beyond those of a warm-up
        elif event.numbering == "last":
            request_id = PADDING_ID_BASE - self.config.max_draft_len - request_id
        if event.same_id and self.last_departed is not None and self.last_departed not in ids:
            request_id = self.last_departed
        request = Request.of(event, request_id)
        self.journal.write(log.Submitted(request_id, request.incarnation, event))
        self.waiting.append(request)

    def _depart(self, request: Request, reason: str) -> None:
        self.journal.write(log.Departed(request.incarnation, reason))
        self.last_departed = request.request_id
        if request in self.waiting:
            self.waiting.remove(request)
        else:
            self.running.remove(request)
            del self.lives[request.incarnation]
            assert request.seq_slot is not None
            self.seq_slots.append(request.seq_slot)

    def _admit(self) -> None:
        while self.waiting and self.seq_slots:
            request = self.waiting.pop(0)
            request.seq_slot = self.seq_slots.pop(0)
            self.running.append(request)
            self.lives[request.incarnation] = request

    def _schedule(self, event: Step) -> list[Request]:
        """Everybody who is not paused, in this step's order, contexts first."""
        ready = []
        for request in self.running:
            if request.pause:
                request.pause -= 1
                request.drafts = []  # left out of a step: dropped, once and whole
            else:
                ready.append(request)
        turn = event.rotate % len(ready) if ready else 0
        ready = ready[turn:] + ready[:turn]
        return sorted(ready, key=lambda request: request.decoding)

    def _step(self, event: Step) -> Batch:
        self._admit()
        ready = self._schedule(event)
        r = self._draft_len(event, max(1, len(ready)))
        prefilling = [request for request in ready if not request.decoding]
        decoding = [request for request in ready if request.decoding]
        contexts = self._chunks(prefilling, event.chunk, len(decoding) * (1 + r))
        generations = [request.generation(r) for request in decoding]
        self._reserve(prefilling, [row.first_position + row.length for row in contexts])
        self._reserve(decoding, [row.position + 1 + r for row in generations])
        tokens = [
            [self._last_token(request), *self._drafts(request, g, r)]
            for g, request in enumerate(decoding)
        ]
        if not ready:
            self._add_dummies(generations, tokens, IDLE_ID, 1, r)
        size = padded_size(self.config, len(generations), r)
        replay = event.graph and size is not None and not contexts
        if replay and size is not None:
            self._add_dummies(generations, tokens, PADDING_ID_BASE - r, size, r)
        return self._feed(
            Rows(
                step=self.forwards,
                mode="replay" if replay else "eager",
                draft_len=r,
                contexts=[
                    (row, self._token_at(request, row.first_position + row.length - 1))
                    for request, row in zip(prefilling, contexts, strict=True)
                ],
                generations=generations,
                tokens=tokens,
                accepts=[min(a, r) for a in _cycle(event.accepts or (0,), len(generations))],
                windows=self._windows(event, r, len(decoding), len(generations)),
            ),
            [request.reserved for request in ready],
        )

    def _chunks(self, prefilling: list[Request], longest: int, taken: int) -> list[ContextRow]:
        """Prompt chunks within the token budget; each leaves a token for those behind it."""
        left = self.config.max_num_tokens - taken
        chunks: list[ContextRow] = []
        for behind in reversed(range(len(prefilling))):
            most = left - behind
            request = prefilling[len(chunks)]
            chunks.append(request.chunk(min(longest or most, most)))
            left -= chunks[-1].length
        return chunks

    def _windows(self, event: Step, draft_len: int, real: int, count: int) -> list[int] | None:
        """Verify windows of a ragged step, 1 for the rows that stand for nobody; None: uniform."""
        whole_block = draft_len == self.config.max_draft_len  # section 14: r = K in ragged steps
        if not (self.config.confidence_scheduling and event.windows and whole_block):
            return None
        windows = [min(window, 1 + draft_len) for window in _cycle(event.windows, real)]
        return windows + [1] * (count - real)

    def _reserve(self, requests: list[Request], rows: list[int]) -> None:
        """Target KV rows for the furthest write of this step (semantics, section 15)."""
        for request, needed in zip(requests, rows, strict=True):
            request.reserved = max(request.reserved, needed)

    def _add_dummies(
        self,
        generations: list[GenerationRow],
        tokens: list[list[int]],
        request_id: int,
        size: int,
        r: int,
    ) -> None:
        """Fill the batch up with rows that stand for nobody; their drafts are all 1."""
        while len(generations) < size:
            generations.append(GenerationRow(request_id, 0, self.config.max_num_requests, r))
            tokens.append([1] * (1 + r))

    def _feed(self, rows: Rows, reserved: list[int]) -> Batch:
        batch = assemble(self.config, rows)
        dummies = len(batch.contexts) + len(batch.generations) - len(reserved)
        self.journal.write(log.Fed(batch, (*reserved, *[None] * dummies)))
        self.forwards += 1
        return batch

    def _warmup(self, event: Warmup) -> Batch:
        config, r, greedy = self.config, self.config.max_draft_len, not event.sampled
        if event.draft_len is not None:
            r = min(event.draft_len, r)
        elif event.capture:
            r = lookup(config, event.rows)
        size = padded_size(config, event.rows, r) if event.capture else None
        room, contexts = config.max_num_requests, []
        names = [(WARMUP_ID + i, 0, i) for i in range(room)]
        if event.live:
            live = [request.generation(0) for request in self.running]
            names[: len(live)] = [(row.request_id, row.incarnation, row.seq_slot) for row in live]
        if event.context and size is None:
            contexts = [(ContextRow(*names.pop(0), 0, 2, greedy), 0)]
        count = size or min(event.rows, len(names))
        generations = [GenerationRow(*name, 5, 0, greedy) for name in names[:count]]
        return self._feed(
            Rows(
                step=self.forwards,
                mode="warmup" if size is None else "capture",
                draft_len=r,
                contexts=contexts,
                generations=generations,
                tokens=[[1] * (1 + r)] * count,
                accepts=[r] * count,
                windows=None,
            ),
            [],
        )

    def _token_at(self, request: Request, position: int) -> int:
        index = position - request.asked.prompt
        if index >= 0:
            return request.output[index]
        return prompt_token(request.incarnation, position, self.config.vocab_size)

    def _last_token(self, request: Request) -> int:
        return self._token_at(request, request.length - 1)

    def _deliver(
        self,
        batch: Batch,
        result: StepResult,
        b: int,
        row: ContextRow | GenerationRow,
        request: Request,
    ) -> None:
        """One row's result, to the request that it belongs to."""
        count = result.new_tokens_lens[b]
        tokens = list(result.new_tokens[b][:count])
        if isinstance(row, ContextRow):
            request.computed = row.first_position + row.length
            if request.computed < request.length:
                return  # not the last chunk: the target's token is discarded
            request.decoding = True
        else:
            request.computed += count
        emitted = self._kept(request, tokens)
        request.output += emitted
        request.length += len(emitted)
        request.reserved = request.length
        self.journal.write(
            log.Delivered(
                batch.step,
                request.request_id,
                request.incarnation,
                tuple(emitted),
                request.reserved,
            )
        )
        if len(emitted) < len(tokens) or not request.room or request.asked.stop in emitted:
            self._depart(request, "finished")
        else:
            self._propose(request, b - len(batch.contexts), list(result.next_draft_tokens[b]))


def _cycle(values: tuple[int, ...], count: int) -> list[int]:
    return [values[i % len(values)] for i in range(count)]
