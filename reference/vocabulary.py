"""The words that everybody shares: configuration, batch, result, state, and the door.

Nothing here decides anything: the specification is in the other files of `reference/`, an
implementation behind the door decides for itself. Section numbers are those of
`docs/semantics.md`. Short names used in all docstrings:

K   `max_draft_len`, the block size              r   `draft_len` of this step, 0 <= r <= K
W   `window_size`                                S   `max_num_requests`; row S is the scratch row
B   rows of a batch, contexts first              C   context rows    G = B - C generation rows
V   `vocab_size`                                 D   `ROW_COMPONENTS`, numbers in a hidden row

Bulk data travel in flat `array.array` buffers (row-major), so that `torch.frombuffer` and
`numpy.frombuffer` read them without a copy. They belong to the receiver for one step only: the
harness overwrites them afterwards, so a worker that keeps one keeps garbage.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from draftproof.reference.choosing import NO_PENALTIES as NO_PENALTIES
from draftproof.reference.choosing import Guide as Guide
from draftproof.reference.choosing import Matcher as Matcher
from draftproof.reference.choosing import Penalties as Penalties
from draftproof.reference.frames import ROW_COMPONENTS as ROW_COMPONENTS
from draftproof.reference.frames import Frames as Frames

Mode = Literal["eager", "warmup", "capture", "replay"]
"""How a forward runs. Warm-up and capture leave the state as it was, though their rows may bear the
names of live requests. A replay runs what a capture recorded and counts like an eager step (section
11). Both are for batches of generations only; a replay may come without its capture, which the
worker then makes up for."""

UNDONE: tuple[Mode, ...] = ("warmup", "capture")
"""Modes of a step that must leave no trace, and whose result means nothing."""

WindowSource = Literal["uniform", "windows", "snapshot"]
Target = Literal["scripted", "autonomous"]

PURPOSES = ("target", "draft", "accept", "recover")
"""What a random number is drawn for; its index here goes into the counter (section 6)."""

IDLE_ID = 0
"""Request id of the generation row that an idle rank holds (section 3)."""

PADDING_ID_BASE = 2**64 - 1
"""A padding row of a step with draft length r has the id `PADDING_ID_BASE - r` (section 3)."""

NEUTRAL_LOGIT = 30.0
"""Confidence logit of a row about which nothing is known (sections 2 and 14)."""

CONFIDENCE_LOGITS: tuple[float, ...] = tuple((i - 32) / 8 for i in range(64))
"""The fixed table that the exact drafter takes confidence logits from (section 8a)."""

SEAMS = ("accept", "seed", "draft", "publish")
"""Where a forward calls `Collaborators.at`: before acceptance, before the contexts are seeded,
before drafting (also when r = 0), before the results are returned."""


class ConfigError(ValueError):
    """A configuration that breaks a rule of section 10, or that a factory does not support.

    The text is one sentence for people. The harness passes over cases whose configuration a
    factory refuses, and says so.
    """


class BatchError(ValueError):
    """A batch that no worker may accept (section 3); raised before anything has changed."""


@dataclass(frozen=True, slots=True)
class Config:
    """What a worker is built for (sections 1 and 10). `reference.config.checked` validates it.

    draft_len_schedule: pairs (batch-size threshold, draft length), or None.
    confidence_scheduling: steps may be ragged, with one verify window per generation row.
    use_rejection_sampling: batches that are not all greedy use probabilities (section 6).
    max_num_tokens: most token rows in a step, at least S * (K + 1).
    graph_batch_sizes: captured sizes up to S, ascending, for generation-only batches.
    d2t: the draft vocabulary, if it is narrower: the target's token of each draft token, no two
        the same; needs rejection sampling (sections 6 and 19).
    drawn_uniforms: sampled steps bring no uniforms, so workers draw their own (section 6).
    target: how the simulated target answers; a worker need not look at it.
    target_logits: steps bring the target's logits, and the worker chooses its tokens from them,
        under penalties and grammars (section 19).
    poison: uninitialised or cleared memory is NaN instead of 0.

    The others belong to confidence scheduling (section 14) and are refused without it:

    min_verify_len, max_verify_len: fewest and most drafts verified per request; 0 stands for K.
    verify_budget: drafts verified above the fewest, over the whole batch; None: not fixed.
    verify_buckets: captured token counts of ragged steps, ascending.
    sts_temperatures: T_k per draft position, as fitted; None: all 1.
    sps_table: pairs (tokens in the target's step, steps per second), ascending, measured at
        `verify_buckets` if there are any, else up to S * (K + 1); None: not profiled.
    step_costs: the same as pairs (tokens, seconds per step); one of the two may be given.
    early_stopping: the table is for whoever chooses the windows, who stops at the first draft that
        does not pay (Algorithm 1), not for the host's search for a budget.
    """

    max_draft_len: int
    window_size: int
    num_stages: int
    max_num_requests: int
    vocab_size: int = 64
    block_size: int | None = None
    draft_len_schedule: tuple[tuple[int, int], ...] | None = None
    max_concurrency: int | None = None
    confidence_scheduling: bool = False
    use_rejection_sampling: bool = False
    max_num_tokens: int = 8192
    graph_batch_sizes: tuple[int, ...] = ()
    d2t: tuple[int, ...] | None = None
    drawn_uniforms: bool = False
    target: Target = "scripted"
    target_logits: bool = False
    poison: bool = False
    min_verify_len: int = 1
    max_verify_len: int = 0
    verify_budget: int | None = None
    verify_buckets: tuple[int, ...] = ()
    sts_temperatures: tuple[float, ...] | None = None
    sps_table: tuple[tuple[int, float], ...] | None = None
    step_costs: tuple[tuple[int, float], ...] | None = None
    early_stopping: bool = False


@dataclass(frozen=True, slots=True)
class ContextRow:
    """A prompt chunk: positions first_position .. first_position + length - 1 (section 5).

    With `target_logits`: grammar, penalties, told as in a generation; last: whether the prompt ends
    with this chunk, for only then its token counts.
    """

    request_id: int
    incarnation: int
    seq_slot: int
    first_position: int
    length: int
    greedy: bool = True
    grammar: int = 0
    penalties: Penalties = NO_PENALTIES
    told: int = 0
    last: bool = True


@dataclass(frozen=True, slots=True)
class GenerationRow:
    """One decoding request: its anchor token at `position`, then its drafts (section 7).

    seq_slot: the executor's sequence slot, 0 .. S-1, or S for idle and padding rows.
    proposed: how many of the row's drafts a drafter proposed; the others are placeholders.
    seed: of the request, 64 bits; with the incarnation it keys the row's random numbers (section
        6) in steps that bring none.

    With `target_logits` (section 19):
    grammar: what `Collaborators.guide` makes a matcher of; 0: none. told: so many tokens of the
        request's prompt are in `prompt_tokens`, the last being that of the row's last position.
    """

    request_id: int
    incarnation: int
    seq_slot: int
    position: int
    proposed: int = 0
    greedy: bool = True
    seed: int = 0
    grammar: int = 0
    penalties: Penalties = NO_PENALTIES
    told: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's input, built by the engine. Rows: contexts, then generations (section 1).

    What the target leaves (target_tokens, target_logits, hidden, target_probs) is missing in
    `prepare`.

    Generations: real ones, then the idle dummy, then padding. Token rows and logit rows are
    packed in row order; a generation has 1 + r of each, or `verify_lens[g]` when that is given.

    step: counts forwards from 0; it is the nonce in `hidden`.
    drafts: int64 [G, r]; missing drafts are 0.
    verify_lens: windows of a ragged step, anchor included, 1 .. r + 1 each; None: uniform.
    target_tokens: int64 [C + generation logit rows]: the target's own token per logit row.
    hidden: int8 [token rows, D], components 0 .. 127; None if nothing was captured.
    target_probs: float32 [generation logit rows, V], multiples of 2^-10, or None. It is given
        exactly in steps with rejection sampling, together with:
    accept_uniforms: float32 [G, r]; recover_uniforms: float32 [G]; draft_uniforms: float32 [G, K];
        all in (0, 1], multiples of 2^-12, so that float32 arithmetic on them is exact. All three
        None: the worker draws them from the rows' seeds (section 6).
    target_logits: float32 [C + generation logit rows, V], whole numbers; given exactly with
        `Config.target_logits`, instead of target_tokens, and together with:
    prompt_tokens: int64, of each row as many as it says in `told`.

    A planned step (section 14) is ragged, of generations only, and its windows come from the worker
    itself, by `plan`. It alone has a verify_budget: drafts to verify above the fewest of each
    request. In `prepare` and `plan` its verify_lens are missing; in `plan` come
    confidences: float32 [S + 2, K], c_k of every row of confidence logits after `prepare`, so that
        the last bit of a sigmoid decides nothing; a row with a non-finite logit is all NaN.
    verify_bucket: how many token rows the windows have to add up to; None: no padding.

    rank_rows: what each rank drafts in this step, in rows, 0 if nothing; None: there is one rank.
    rows: all rows, in batch order; not to be given.
    """

    step: int
    mode: Mode
    draft_len: int
    contexts: tuple[ContextRow, ...]
    generations: tuple[GenerationRow, ...]
    drafts: array[int]
    target_tokens: array[int]
    hidden: array[int] | None
    verify_lens: tuple[int, ...] | None = None
    all_greedy: bool = True
    target_probs: array[float] | None = None
    accept_uniforms: array[float] | None = None
    recover_uniforms: array[float] | None = None
    draft_uniforms: array[float] | None = None
    target_logits: array[float] | None = None
    prompt_tokens: array[int] | None = None
    verify_budget: int | None = None
    verify_bucket: int | None = None
    confidences: array[float] | None = None
    rank_rows: tuple[int, ...] | None = None
    rows: tuple[ContextRow | GenerationRow, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", (*self.contexts, *self.generations))


Matrix = Any
"""Nested lists of int or float, or anything with `.tolist()` (a tensor, an ndarray)."""


@dataclass(slots=True)
class StepResult:
    """One step's output (section 4). Only the first `new_tokens_lens[b]` of a row count.

    new_tokens: [B, 1 + r]; new_tokens_lens: [B], accepted drafts + 1 (contexts: 1);
    next_draft_tokens: [B, r], zeros for contexts; next_new_tokens: [B, 1 + r], the bonus and
    the next drafts; window_source: where the verify windows of this step are published.
    """

    new_tokens: Matrix
    new_tokens_lens: Matrix
    next_draft_tokens: Matrix
    next_new_tokens: Matrix
    window_source: WindowSource


@dataclass(slots=True)
class WorkerState:
    """A worker's state after a step (section 2). A field that cannot be shown is None.

    slots: request id -> slot, in insertion order; free_slots: the queue, front first;
    batch_to_slot: [B]; ctx_len, valid_len: [S + 1]; initialized: [S + 1];
    windows: per slot 0 .. S-1: [stages][valid_len][D], oldest visible frame first, never as
    ring columns; a slot's frames are ctx_len - valid_len + 1 .. ctx_len; a stage may be `Frames`;
    confidence_logits: [S + 2][K], confidence_stamp: [S + 2] (S scratch, S + 1 neutral);
    draft_seq: forwards prepared so far; draft_probs: per sequence slot 0 .. S-1: [K][V].
    attention_rows: [B], the token rows that the target's attention is set up for: a chunk's length,
    1 + r per generation. Drafting changes that, and has to put it back (section 10).
    With `target_logits`, per sequence slot 0 .. S-1: token_counts: [V], of the output; prompt_seen:
    [V], which tokens are in the prompt; grammar_depth: tokens that its matcher has taken in.
    """

    slots: Mapping[int, int] | None = None
    free_slots: Sequence[int] | None = None
    batch_to_slot: Matrix = None
    ctx_len: Matrix = None
    valid_len: Matrix = None
    initialized: Matrix = None
    windows: Matrix = None
    confidence_logits: Matrix = None
    confidence_stamp: Matrix = None
    draft_seq: int | None = None
    draft_probs: Matrix = None
    attention_rows: Sequence[int] | None = None
    token_counts: Matrix = None
    prompt_seen: Matrix = None
    grammar_depth: Sequence[int | None] | None = None


DraftLaw = Sequence[Sequence[float]]
"""p of each position of a block, whatever was drafted before, [K][tokens of the draft vocabulary].
Like all probabilities here, multiples of 2^-10."""


class Drafter(Protocol):
    """The exact drafter of section 8a for one request, for workers without their own."""

    def __call__(
        self, windows: Sequence[Sequence[Sequence[int]]], start: int, bonus: int
    ) -> tuple[list[int], list[float]]:
        """Draft a block by argmax.

        windows: [stages][frames][D], visible frames, oldest first, the last one being `start`;
        start: number of tokens committed before the bonus; bonus: the first input token.
        Returns K tokens and K confidence logits.
        """


@dataclass(frozen=True, slots=True)
class Collaborators:
    """What the harness lends a worker.

    at: to be called with each name of `SEAMS`; it may raise (an injected fault), and the worker
        lets that exception pass. drafter: the exact drafter in plain Python. draft_law: with
        rejection sampling, what drafts are drawn from instead of the exact drafter's own law, and
        whose most likely tokens are the argmax drafts; None in state checks. guide: with
        `target_logits`, the grammar engine. barrier: with several ranks, to be called once for each
        stage: (stage, rows that this rank brings, the list of all ranks' rows), see section 13.
    """

    at: Callable[[str], None]
    drafter: Drafter
    draft_law: DraftLaw | None = None
    guide: Guide | None = None
    barrier: Callable[[int, int, Sequence[int]], None] | None = None


class Worker(Protocol):
    """The door. A factory `make(config, device, collaborators, **options)` returns one.

    Two more methods are optional; without them the report says what was not checked:
    `plan(batch) -> list[int]`, called between `prepare` and `forward` of a planned step: the verify
    windows of its generations, which are else told in `forward`; `attention_now() -> list[int]`,
    [B]: the token rows that its attention is set up for while it drafts (section 19).
    """

    def prepare(self, batch: Batch) -> None:
        """Section 3; on the host, once before each forward. Raises BatchError, changing nothing."""

    def forward(self, batch: Batch) -> StepResult:
        """Sections 4-9. The batch is the one given to `prepare`, and what the target left.

        Raises BatchError, changing nothing, if that cannot be used, or is missing.
        """

    def state(self) -> WorkerState:
        """The state after the last completed step, as copies; must not change anything."""
