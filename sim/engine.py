"""The serving engine: who is in the next batch, and who gets what came out of the last one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from draftproof.reference.confidence import Snapshot
from draftproof.reference.config import lookup, padded_size
from draftproof.reference.lengths import deliverable, fit_drafts
from draftproof.reference.ragged import Shape
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
from draftproof.sim.packing import before_target
from draftproof.sim.requests import Request
from draftproof.sim.roster import Roster
from draftproof.sim.scheduling import chunks, cycled, dummies, forced_windows, in_turn, look
from draftproof.sim.snapshots import Snapshots, host_windows, shape_of
from draftproof.sim.statistics import Tally
from draftproof.sim.target import prompt_token
from draftproof.sim.views import device_view, furthest_writes, moved_on
from draftproof.sim.warmups import warmup_rows


class Engine(Roster):
    """Turns events into batches and results into tokens, one step at a time.

    Results are delivered before the next batch is built, so that a cancel, and a new request under
    the same id, may come between a forward and its delivery (semantics, section 15); those of a
    late step once it has been launched.

    missing: whose last result was lost; views: the admitted requests as the device knows them,
    while a batch is built; snapshots: the confidences that the host has seen; unpacked: a planned
    step whose windows are still to come.
    """

    def __init__(self, config: Config, journal: log.Journal) -> None:
        super().__init__(config, journal)
        self.forwards = 0
        self.pending: tuple[Batch, StepResult] | None = None
        self.missing: list[Request] = []
        self.views: list[Request] = []
        self.snapshots = Snapshots()
        self.unpacked: tuple[Rows, list[int], log.Look | None] | None = None
        self.tally = Tally(config.max_draft_len)

    # What the schedule does

    def handle(self, event: AnyEvent) -> Batch | None:
        """Apply one event; a Step or a Warmup returns the batch to run, or to plan and `pack`."""
        if isinstance(event, Step):
            if not event.late:
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

    def pack(self, planned: Batch, windows: Sequence[int]) -> Batch:
        """The planned step, as it was handed out, with the windows that the worker has chosen."""
        assert self.unpacked is not None
        rows, reserved, look = self.unpacked
        batch = assemble(self.config, replace(rows, windows=windows))
        batch = replace(
            batch,
            verify_budget=planned.verify_budget,
            verify_bucket=planned.verify_bucket,
            confidences=planned.confidences,
        )
        return self._feed(batch, reserved, look)

    def completed(self, batch: Batch, result: StepResult) -> None:
        """The worker has answered; the result is delivered later."""
        if batch.mode not in UNDONE:
            self.settle(batch)
        self.journal.write(log.Answered(result))
        if batch.mode not in UNDONE:
            self.pending = (batch, result)
            self.tally.answered(batch)
            self._give_up()

    def lost(self) -> None:
        """The answer that was just given never arrives; the next step has to do without."""
        assert self.pending is not None
        (batch, _), self.pending = self.pending, None
        self.journal.write(log.Lost())
        for b, row in enumerate(batch.rows):
            self._withhold(batch, b)
            if (request := self._recipient(row)) is not None:
                self.missing.append(request)
                request.pause = max(request.pause, 1)

    def failed(self, batch: Batch, prepared: bool) -> None:
        """A forward failed: every admitted request fails, a warm-up's failure hurts nobody.

        prepared: whether `prepare` was passed.
        """
        if batch.mode not in UNDONE:
            self.settle(batch)
        self.journal.write(log.Answered(None, prepared))
        if batch.mode not in UNDONE:
            for request in list(self.running):
                self._depart(request, "failed")

    @property
    def awaits(self) -> bool:
        """Whether a result for some request was not delivered yet."""
        return self.pending is not None and any(row.incarnation for row in self.pending[0].rows)

    def settle(self, launched: Batch | None = None) -> None:
        """Deliver what the last forward brought; launched: a newer one is already under way."""
        if self.pending is None:
            return
        (batch, result), self.pending = self.pending, None
        for b, row in enumerate(batch.rows):
            request = self._recipient(row)
            if request is not None:
                self._deliver(batch, result, b, request, launched)
            else:
                self._withhold(batch, b)

    def publish(self) -> None:
        """Tell the statistics, as they are now."""
        self.journal.write(log.Published(self.tally.published()))

    # What planted engine defects replace (`draftproof.fuzz.defects.engines`)

    def _give_up(self) -> None:
        """Nobody waits longer than one step for a result that does not arrive."""
        given_up, self.missing = self.missing, []
        for request in given_up:
            if request in self.running:
                self._depart(request, "failed")

    def _draft_len(self, event: Step, size: int) -> int:
        """r of a step over `size` rows, padding not counted (semantics, section 10)."""
        if self.config.draft_len_schedule is None and event.draft_len is not None:
            return min(event.draft_len, self.config.max_draft_len)
        return lookup(self.config, size)

    def _room(self, generations: int, draft_len: int) -> int:
        """Token rows that generations leave to prompts."""
        return self.config.max_num_tokens - generations * (1 + draft_len)

    def _drafts(self, request: Request, row: int, draft_len: int) -> list[int]:
        """The drafts to verify for a request whose generation row is `row`."""
        return fit_drafts(request.drafts, draft_len)

    def _propose(self, request: Request, row: int, drafts: list[int]) -> None:
        """Keep what was drafted for a request in generation row `row`."""
        request.drafts = drafts

    def _kept(self, request: Request, tokens: list[int]) -> list[int]:
        """The tokens of an accepted run that are emitted (semantics, section 15)."""
        return deliverable(tokens, request.stop, request.room)

    def _count(self, batch: Batch, b: int, tokens: int, emitted: int) -> None:
        """Row b's result was delivered: so many tokens, of which so many are emitted."""
        incarnation, own = batch.rows[b].incarnation, self.tally.own_drafts(batch, b)
        self.tally.delivered(incarnation, own, tokens, emitted)

    def _withhold(self, batch: Batch, b: int) -> None:
        """Row b's result reaches nobody: its drafts were verified in vain."""
        if batch.rows[b].incarnation:
            self.tally.wasted += self.tally.own_drafts(batch, b)[1]

    def _recipient(self, row: ContextRow | GenerationRow) -> Request | None:
        """Whose results these are: the incarnation that produced them, if it still lives."""
        return self.lives.get(row.incarnation)

    def _seen(self, age: int) -> Snapshot | None:
        """The host's snapshot of that age; None: it is not ready."""
        return self.snapshots.old(age)

    def _sources(self, snapshot: Snapshot, rows: Sequence[GenerationRow]) -> list[int]:
        """Where the confidences of these rows stand in the host's snapshot."""
        return snapshot.sources(rows)

    # How it does it

    def _schedule(self, event: Step) -> list[Request]:
        """Everybody who is not paused, as the device sees them, in this step's order."""
        ready = []
        self.views = [device_view(request, self.pending) for request in self.running]
        for request, view in zip(self.running, self.views, strict=True):
            if request.pause:
                request.pause -= 1
                request.drafts = []  # left out of a step: dropped, once and whole
            else:
                ready.append(view)
        return in_turn(ready, event.rotate)

    def _step(self, event: Step) -> Batch:
        self._admit()
        ready = self._schedule(event)
        r = self._draft_len(event, max(1, len(ready)))
        prefilling = [view for view in ready if not view.decoding]
        decoding = [view for view in ready if view.decoding]
        contexts = chunks(prefilling, event.chunk, self._room(len(decoding), r))
        generations = [view.generation(r) for view in decoding]
        self._reserve(prefilling, [row.first_position + row.length for row in contexts])
        self._reserve(decoding, [self._needed(view, r) for view in decoding])
        tokens = [
            [self._last_token(view), *self._drafts(view, g, r)] for g, view in enumerate(decoding)
        ]
        seen = self._look(event, r, generations)
        planned = None if contexts or seen is None or seen.confidences is None else seen
        shape = self._shape(r, len(decoding), planned.budget if planned else None)
        generations += dummies(self.config, IDLE_ID, not ready, r)
        replay = event.graph and shape is not None and not contexts
        if replay and shape is not None:
            missing = shape.rows - len(generations)
            generations += dummies(self.config, PADDING_ID_BASE - r, missing, r)
        tokens += [[1] * (1 + r)] * (len(generations) - len(decoding))
        windows = forced_windows(self.config, event, r, len(decoding), len(generations))
        if seen is not None and seen.confidences is not None:
            windows = host_windows(self.config, seen.budget, seen.confidences) if contexts else None
        rows = Rows(
            step=self.forwards,
            mode="replay" if replay else "eager",
            draft_len=r,
            contexts=[
                (row, self._token_at(view, row.first_position + row.length - 1))
                for view, row in zip(prefilling, contexts, strict=True)
            ],
            generations=generations,
            tokens=tokens,
            accepts=[min(a, r) for a in cycled(event.accepts or (0,), len(generations))],
            windows=windows,
        )
        batch = assemble(self.config, rows)
        reserved = [self.lives[view.incarnation].reserved for view in ready]
        if planned is None:
            return self._feed(batch, reserved, seen)
        self.unpacked = rows, reserved, planned
        bucket = shape.tokens if replay and shape and shape.tokens else None
        return replace(before_target(batch), verify_budget=planned.budget, verify_bucket=bucket)

    def _look(self, event: Step, r: int, rows: Sequence[GenerationRow]) -> log.Look | None:
        """What the host makes of its snapshot; rows: those of the requests that decode."""
        return look(self.config, event, r, rows, self._seen, self._sources)

    def _shape(self, r: int, real: int, budget: int | None) -> Shape | None:
        """The graph of a step over generations; budget: of a planned step."""
        if budget is not None:
            return shape_of(self.config, real, budget)
        size = padded_size(self.config, real or 1, r)
        return None if size is None else Shape(size, 0)

    def _needed(self, view: Request, r: int) -> int:
        """Target KV rows to reserve by a host that does not know what a step in flight adds."""
        request = self.lives[view.incarnation]
        in_flight = 0 if view is request else self.config.max_draft_len + 1
        return request.length + r + in_flight

    def _reserve(self, views: list[Request], rows: list[int]) -> None:
        """Target KV rows for the furthest write of this step (semantics, section 15)."""
        for view, needed in zip(views, rows, strict=True):
            request = self.lives[view.incarnation]
            request.reserved = max(request.reserved, needed)
            request.told += request.untold(needed)

    def _feed(self, batch: Batch, reserved: Sequence[int], look: log.Look | None = None) -> Batch:
        dummies = len(batch.contexts) + len(batch.generations) - len(reserved)
        self.journal.write(log.Fed(batch, (*reserved, *[None] * dummies), look))
        self.forwards += 1
        return batch

    def _warmup(self, event: Warmup) -> Batch:
        live = [request.generation(0) for request in self.running] if event.live else []
        rows, bucket = warmup_rows(self.config, event, self.forwards, live)
        return self._feed(replace(assemble(self.config, rows), verify_bucket=bucket), [])

    def _token_at(self, request: Request, position: int) -> int:
        index = position - request.asked.prompt
        if index >= 0:
            return request.output[index]
        return prompt_token(request.incarnation, position, self.config.vocab_size)

    def _last_token(self, request: Request) -> int:
        return self._token_at(request, request.length - 1)

    def _deliver(
        self, batch: Batch, result: StepResult, b: int, request: Request, launched: Batch | None
    ) -> None:
        """One row's result, to the request that it belongs to."""
        row, tokens = batch.rows[b], result.new_tokens[b][: result.new_tokens_lens[b]]
        if not moved_on(request, row, tokens):
            return
        emitted = self._kept(request, tokens)
        self._count(batch, b, len(tokens), len(emitted))
        request.output += emitted
        request.length += len(emitted)
        writes = furthest_writes(launched) if launched is not None else {}
        request.reserved = max(request.length, writes.get(request.incarnation, 0))
        self.journal.write(
            log.Delivered(
                batch.step,
                request.request_id,
                request.incarnation,
                tuple(emitted),
                request.reserved,
            )
        )
        if len(emitted) < len(tokens) or not request.room or request.stop in emitted:
            self._depart(request, "finished")
            return
        left_out = launched is not None and request.incarnation not in writes
        drafts = [] if left_out else list(result.next_draft_tokens[b])
        self._propose(request, b - len(batch.contexts), drafts)
