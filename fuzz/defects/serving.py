"""Whether the output alone would have shown a fault.

A schedule is served once more by the worker under test alone: its own results go back into the
engine, and its own drafts are verified next. At the end steps follow until every request is
done. Then only what requests were sent is looked at, and it is measured by the target's own word:
what it answered in the step where a token came from, to what that step was fed. States, drafts,
acceptance counts and the model are not looked at.
"""

from __future__ import annotations

from typing import Any, cast

from draftproof.fuzz.cases import Subject
from draftproof.properties.guided import plain_choice
from draftproof.properties.history import Life
from draftproof.reference.model import Model
from draftproof.reference.ranks import Barrier
from draftproof.reference.vocabulary import (
    UNDONE,
    Batch,
    Collaborators,
    Config,
    ContextRow,
    StepResult,
    Worker,
    WorkerState,
)
from draftproof.sim.divergence import Divergence
from draftproof.sim.grammars import GRAMMARS, end_token
from draftproof.sim.journal import Answered, Delivered, Departed, Entry, Fed, Submitted
from draftproof.sim.liveness import drain
from draftproof.sim.lockstep import MakeWorker
from draftproof.sim.players import Player
from draftproof.sim.run import Run, Simulation
from draftproof.sim.shapes import listed
from draftproof.sim.target import plain_decode, prompt_token

SHOWN = ("wrong", "died", "stuck")
"""Verdicts of `output` by which somebody who sees nothing else knows that something is wrong."""


def output(subject: Subject, run: Run) -> str:
    """What somebody sees of a run who sees its output alone.

    "wrong": a request was sent a token that the target did not say there, or none where it had to
    end; "died": the engine could not go on; "stuck": a request is never done; "law": every sampled
    token is one that the target gives some mass, but not the one that follows from the same random
    numbers, so statistics over many outputs might show it; "right": nothing at all.
    """
    simulation = serve(subject, run)
    done = drained(simulation)
    if reading(simulation.run) is not None:
        return "wrong"
    if simulation.run.breakdown is not None:
        return "died"
    if not done:
        return "stuck"
    return "law" if subject.make is not None and draws_differ(subject.make, run) else "right"


# The schedule, served by the worker alone


def serve(subject: Subject, run: Run) -> Simulation:
    """The events of a run, with the subject's own worker, if it has one, in the model's place."""
    make = subject.make

    def make_model(config: Config, lent: Collaborators) -> Model:
        if make is None:
            return Model(config, lent)
        return cast(Model, _Served(make(config, lent), Barrier(config, lent)))

    simulation = Simulation(run.config, subject.make_engine, make_model)
    for event in run.events:
        simulation.apply(event)
    return simulation


def drained(simulation: Simulation) -> bool:
    """Let every request come to its end; whether all do. A breakdown is an end too."""
    simulation.finish()
    try:
        drain(simulation)
    except Divergence as divergence:
        if divergence.oracle != "liveness":
            raise
        return False
    return True


class _Served:
    """A worker where a simulation expects the model: what it shows, in the model's words."""

    def __init__(self, worker: Worker, barrier: Barrier) -> None:
        self.worker = worker
        self.barrier = barrier
        self.incarnations: dict[int, int] = {}
        self.slots = self

    def prepare(self, batch: Batch) -> None:
        """As of a worker."""
        self.worker.prepare(batch)
        self.incarnations |= {row.request_id: row.incarnation for row in batch.rows}

    def plan(self, batch: Batch) -> list[int]:
        """As of a worker that plans; every one of the catalogue does."""
        windows: list[int] = self.worker.plan(batch)  # type: ignore[attr-defined]  # optional
        return windows

    def forward(self, batch: Batch) -> StepResult:
        """As of a worker, in lists."""
        result = self.worker.forward(batch)
        names = ("new_tokens", "new_tokens_lens", "next_draft_tokens", "next_new_tokens")
        return StepResult(
            **{name: listed(getattr(result, name)) for name in names},
            window_source=result.window_source,
        )

    def state(self) -> WorkerState:
        """As of a worker."""
        return self.worker.state()

    @property
    def confidence(self) -> Any:
        """[S + 2][K]."""
        return self.state().confidence_logits

    @property
    def stamps(self) -> Any:
        """[S + 2]."""
        return self.state().confidence_stamp

    @property
    def batch_to_slot(self) -> Any:
        """[B]."""
        return self.state().batch_to_slot

    @property
    def draft_seq(self) -> int | None:
        """Forwards prepared so far."""
        return self.state().draft_seq

    @property
    def owned(self) -> dict[int, tuple[int, int]]:
        """Request id -> slot and incarnation."""
        slots = self.state().slots or {}
        return {one: (slot, self.incarnations[one]) for one, slot in slots.items()}


def draws_differ(make: MakeWorker, run: Run) -> bool:
    """Whether a sampled row is sent other tokens than the model sends, in steps of the run itself.

    Of two runs of tokens the shorter one decides: how many come in a step is nobody's business.
    """
    player = Player(run.config, make)
    for expected in run.steps:
        result, batch = player.step(expected), expected.batch
        if result is None or expected.result is None or batch.target_probs is None:
            continue
        if batch.mode in UNDONE:
            continue
        for b, row in enumerate(batch.rows):
            if isinstance(row, ContextRow) or row.greedy:
                continue
            pairs = zip(sent(expected.result, b), sent(result, b), strict=False)
            if any(want != have for want, have in pairs):
                return True
    return False


def sent(result: StepResult, b: int) -> list[int]:
    """The tokens that a row brings."""
    tokens: list[int] = listed(result.new_tokens)[b][: listed(result.new_tokens_lens)[b]]
    return tokens


# Reading the output


def reading(run: Run) -> str | None:
    """The first thing that is wrong with what requests were sent, or None."""
    reader = _Reader(run.config)
    return next(filter(None, map(reader.read, run.journal.entries)), None)


class _Reader:
    """lives: by incarnation; batches: by step; fed: per incarnation, up to which position its
    tokens are known to the target.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.lives: dict[int, Life] = {}
        self.batches: dict[int, Batch] = {}
        self.fed: dict[int, int] = {}
        self.batch: Batch | None = None

    def read(self, entry: Entry) -> str | None:
        """What is wrong with an entry, as far as it is about output."""
        if isinstance(entry, Submitted):
            self._submitted(entry)
        elif isinstance(entry, Fed):
            self.batch = None if entry.batch.mode in UNDONE else entry.batch
            self.batches[entry.batch.step] = entry.batch
        elif isinstance(entry, Answered):
            if self.batch is not None and entry.result is not None:
                self._answered(self.batch, entry.result)
        elif isinstance(entry, Delivered):
            return self._sent(entry)
        elif isinstance(entry, Departed):
            return self._departed(entry)
        return None

    def _departed(self, entry: Departed) -> str | None:
        early = entry.reason == "finished" and not self.lives[entry.incarnation].ended
        return "an output that ends too soon" if early else None

    def _submitted(self, entry: Submitted) -> None:
        life, config = Life.of(entry), self.config
        if config.target_logits and life.grammar % (len(GRAMMARS) + 1):
            life.stop = end_token(config.vocab_size)
        own, v = entry.incarnation, config.vocab_size
        if config.target_logits:
            life.seen = {prompt_token(own, position, v) for position in range(life.prompt)}
        self.lives[own] = life
        self.fed[own] = life.next_position

    def _answered(self, batch: Batch, result: StepResult) -> None:
        """Rows that follow on what the target knows are known to it as well, as far as accepted."""
        for b, row in enumerate(batch.rows):
            own = row.incarnation
            if isinstance(row, ContextRow):
                first, count = row.first_position, row.length
            else:
                first, count = row.position, result.new_tokens_lens[b]
            if first <= self.fed.get(own, -1):
                self.fed[own] = max(self.fed[own], first + count)

    def _sent(self, entry: Delivered) -> str | None:
        """Tokens reach a request."""
        batch, life = self.batches[entry.step], self.lives[entry.incarnation]
        own = [b for b, row in enumerate(batch.rows) if row.incarnation == life.incarnation]
        tokens = list(entry.tokens)
        if not own:
            return "tokens of somebody else"
        if life.ended or len(life.output) + len(tokens) > life.limit or life.stop in tokens[:-1]:
            return "tokens behind the end"
        wrong = self._misplaced(batch, own[0], life) or self._unsaid(batch, own[0], life, tokens)
        life.output += tokens
        life.length += len(tokens)
        return wrong

    def _misplaced(self, batch: Batch, b: int, life: Life) -> str | None:
        """The target answers a row at its own position only, behind everything before it."""
        row = batch.rows[b]
        last = row.position if not isinstance(row, ContextRow) else _end(row) - 1
        if last != life.length - 1 or self.fed[life.incarnation] < last:
            return "an answer to a row that was fed elsewhere"
        return None

    def _unsaid(self, batch: Batch, b: int, life: Life, tokens: list[int]) -> str | None:
        """Each token is the target's, and what was accepted before it is what the target read."""
        contexts, r = len(batch.contexts), batch.draft_len
        widths = batch.verify_lens or [1 + r] * len(batch.generations)
        logit_row = b if b < contexts else contexts + sum(widths[: b - contexts])
        width = 1 if b < contexts else widths[b - contexts]
        drafts = [] if b < contexts else batch.drafts[(b - contexts) * r :][: width - 1].tolist()
        if len(tokens) > width or tokens[:-1] != drafts[: len(tokens) - 1]:
            return "a token behind a draft that the target did not read"
        for i, token in enumerate(tokens):
            if not self._said(batch, logit_row + i, life, tokens[:i], token):
                return "a token that the target did not say"
        return self._not_plain(life, tokens)

    def _said(self, batch: Batch, row: int, life: Life, before: list[int], token: int) -> bool:
        """Whether the target says this token in a logit row; before: those sent before it."""
        v, contexts = self.config.vocab_size, len(batch.contexts)
        if batch.target_logits is not None:
            logits = batch.target_logits[row * v : row * v + v].tolist()
            return token == plain_choice(logits, [*life.output, *before], life)
        if batch.target_probs is not None and row >= contexts:
            return batch.target_probs[(row - contexts) * v + token] > 0
        return token == batch.target_tokens[row]

    def _not_plain(self, life: Life, tokens: list[int]) -> str | None:
        """An autonomous target also says what it would have said without any drafts."""
        if self.config.target != "autonomous":
            return None
        position, v = life.length - 1, self.config.vocab_size
        last = life.output[-1] if life.output else prompt_token(life.incarnation, position, v)
        plain = plain_decode(life.incarnation, position, last, v, len(tokens))
        return None if tokens == plain else "a token that plain decoding does not give"


def _end(row: ContextRow) -> int:
    return row.first_position + row.length
