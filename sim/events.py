"""Events: what the schedule does. Any event fits any state; one without sense is skipped.

They name requests by submission ordinal, which a Submit carries itself, so that any sub-sequence of
a trace is a trace.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from draftproof.reference.vocabulary import SEAMS, Config
from draftproof.sim.choices import Choices, Digits
from draftproof.sim.faults import PLACES, Kind, kinds_at

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
FAULTS = ("target", "hidden", *SEAMS)
"""Where a step may fail: in the target, so that `prepare` is all that the worker sees; for want of
hidden rows, which the target did not leave; or at a seam of the worker."""

Seam = Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(PLACES)})$")]
"""What a field may hold; a file that says otherwise is refused (`draftproof.sim.traces`)."""


class Event(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, forbid_unknown_fields=True):
    """One thing that the schedule does."""


class Submit(Event, frozen=True, tag="submit"):
    """A new request. `request` is its ordinal; its incarnation is the ordinal plus one.

    prompt: tokens; reused: how many of them come from a prefix cache; imported: its prompt ran on
    another server; same_id: it takes the id of the request that departed last, else a new one;
    limit: most tokens it may emit; stop: token that ends it; sampled: it is not greedy.
    grammar, penalties: which of a few the target keeps to, 0 for none; used only by a target whose
    logits are given.
    numbering: its id, if new, is a small number, or one beyond 32 bits of which the lower ones say
    nothing, or one of the last below those of padding rows.
    """

    request: Count
    prompt: AtLeastOne = 1
    reused: Count = 0
    imported: bool = False
    same_id: bool = False
    limit: AtLeastOne = 1
    stop: Count | None = None
    sampled: bool = False
    numbering: Literal["small", "wide", "last"] = "small"
    grammar: Count = 0
    penalties: Count = 0


class Step(Event, frozen=True, tag="step"):
    """One forward over everybody who is ready.

    chunk: longest prompt chunk, 0 for as much as fits; accepts: how many drafts the scripted
    target keeps, cyclically over the generation rows; draft_len: r forced from outside, used only
    without a schedule; rotate: by how much the batch order turns; graph: pad to a captured size
    and replay; windows: verify windows, cyclically, used only with confidence scheduling; fault,
    kind: where something goes wrong, and what (`draftproof.sim.faults`); unread: the worker is not
    asked for its state, so that the next step runs without what a look may repair, or wait for;
    late: it is built before the results of the last forward are handed over.

    With confidence scheduling, in steps of whole blocks without `windows`: age: the verify windows
    come from confidences, and the host's snapshot is so many steps older than the drafts; it may be
    one or two, of any other age there is none. budget: drafts to verify above the fewest, unless
    the configuration says; broken: the first request's confidences are not finite.
    """

    chunk: Count = 0
    accepts: tuple[Count, ...] = ()
    draft_len: Count | None = None
    rotate: Count = 0
    graph: bool = False
    windows: tuple[AtLeastOne, ...] = ()
    fault: Seam | None = None
    kind: Kind = "exception"
    unread: bool = False
    late: bool = False
    age: Count | None = None
    budget: Count = 0
    broken: bool = False


class Cancel(Event, frozen=True, tag="cancel"):
    """The client goes away; the worker learns of it in the next prepare()."""

    request: Count


class Pause(Event, frozen=True, tag="pause"):
    """The request is left out of the next `steps` batches, then returns."""

    request: Count
    steps: AtLeastOne = 1


class Recompute(Event, frozen=True, tag="recompute"):
    """The request starts again from position 0 with all its tokens as prompt."""

    request: Count


class Warmup(Event, frozen=True, tag="warmup"):
    """A forward over made-up requests that must leave no trace.

    rows: generation rows; context: also one prompt; fault, kind: where something goes wrong, and
    what; sampled: its rows are not greedy; live: its rows bear the names of admitted requests, as
    far as there are any; capture: a graph is captured, if there is one for so many rows: padded to
    its size, without the prompt, and r is the scheduled one unless said; ragged: for planned
    steps, if there is a token bucket for them.
    """

    rows: AtLeastOne = 1
    context: bool = False
    draft_len: Count | None = None
    fault: Seam | None = None
    kind: Kind = "exception"
    sampled: bool = False
    capture: bool = False
    live: bool = False
    ragged: bool = False


AnyEvent = Submit | Step | Cancel | Pause | Recompute | Warmup

FAR = (0, 0, 0, 120, 245, 2040, 32_760, 65_530)
"""How far from position 0 a prompt begins that does not run here: before numbers that a narrow
type, or the drafter's cycle of frames, can no longer tell apart."""

_WEIGHTS: tuple[tuple[type[Event], int], ...] = (
    (Step, 20),
    (Submit, 6),
    (Cancel, 2),
    (Pause, 2),
    (Recompute, 2),
    (Warmup, 1),
)
KINDS = tuple(kind for kind, weight in _WEIGHTS for _ in range(weight))
MANY = 8
"""Rows that kernels, and others who work in blocks, often take at once."""


def choose_event(config: Config, choices: Choices, live: list[int], submitted: int) -> AnyEvent:
    """One event, at the cost of one draw.

    live: ordinals of requests that have not departed; submitted: how many there were so far.
    """
    digits = Digits(choices)
    kind = KINDS[digits.below(len(KINDS))]
    if kind is Submit or not live:
        return _submit(config, digits, submitted)
    many = config.max_num_requests > MANY
    wanted = config.max_num_requests if many else config.max_num_requests / 2
    if kind is Step and len(live) < wanted and digits.below(4) >= (2 if many else 3):
        return _submit(config, digits, submitted)
    if kind is Step:
        return _step(config, digits)
    if kind is Warmup:
        fault, what = _fault(digits, 4)
        return Warmup(
            rows=1 + digits.below(config.max_num_requests),
            context=digits.below(2) == 1,
            draft_len=_draft_len(config, digits),
            fault=fault,
            kind=what,
            sampled=config.target == "scripted" and digits.below(2) == 1,
            capture=bool(config.graph_batch_sizes) and digits.below(2) == 1,
            live=digits.below(2) == 1,
            ragged=bool(config.verify_buckets) and digits.below(2) == 1,
        )
    request = live[digits.below(len(live))]
    if kind is Cancel:
        return Cancel(request)
    if kind is Pause:
        return Pause(request, steps=1 + digits.below(3))
    return Recompute(request)


def _submit(config: Config, digits: Digits, ordinal: int) -> Submit:
    """Prompts up to a little over two windows, so that windows wrap while seeding.

    Some begin far from position 0, the rest being reused or imported.
    """
    windows = 2 * (config.window_size, min(config.window_size, 12))[digits.below(2)]
    prompt = 1 + digits.below(windows + 2)
    limit = 1 + digits.below(160 if config.max_num_requests > MANY else 40)
    origin = digits.below(8)
    reused = (0, 0, 0, prompt // 2, prompt // 2, 0, 0, prompt)[origin]
    far = FAR[digits.below(len(FAR))] if reused or origin in (5, 6) else 0
    if config.target_logits:
        far = min(far, 245)  # all of a prompt is told to the worker
    return Submit(
        request=ordinal,
        prompt=far + prompt,
        reused=far + reused if reused else 0,
        imported=origin in (5, 6),
        same_id=digits.below(2) == 1,
        limit=limit,
        stop=config.vocab_size // 2 if digits.below(3) == 1 else None,
        sampled=config.target == "scripted" and digits.below(2) == 1,
        numbering=("small", "small", "wide", "last")[digits.below(4)],
        grammar=digits.below(5) if config.target_logits else 0,
        penalties=digits.below(5) if config.target_logits else 0,
    )


def _step(config: Config, digits: Digits) -> Step:
    k, w = config.max_draft_len, config.window_size
    fault, kind = _fault(digits, 60)
    seen = digits.below(6)
    step = Step(
        accepts=tuple(digits.below(k + 1) for _ in range(3)),
        draft_len=_draft_len(config, digits),
        chunk=(0, 0, 0, 1, 3, w)[digits.below(6)],
        rotate=digits.below(3),
        graph=digits.below(2) == 1,
        fault=fault,
        kind=kind,
        unread=seen >= 4,
        late=seen in (2, 5),
    )
    return _by_confidence(config, step, digits) if config.confidence_scheduling else step


def _draft_len(config: Config, digits: Digits) -> int | None:
    if config.draft_len_schedule is not None:
        return None
    lengths = config.max_draft_len + 1
    ways = 6 if config.confidence_scheduling else 3  # where whole blocks are what matters
    way, length = divmod(digits.below(ways * lengths), lengths)
    return (length, 0)[ways - 1 - way] if way >= ways - 2 else None


def _by_confidence(config: Config, step: Step, digits: Digits) -> Step:
    """Uniform, with windows from outside, or with those that the confidences ask for."""
    k, kind = config.max_draft_len, digits.below(5)
    if kind == 0:
        return step
    if kind == 1:
        windows = tuple(1 + digits.below(k + 1) for _ in range(2))
        return msgspec.structs.replace(step, windows=windows)
    age = (1, 1, 1, 2, 2, 0)[digits.below(6)]
    budget = digits.below(2 * k + 3)
    broken = budget > 2 * k
    graph = step.graph or (bool(config.verify_buckets) and digits.below(2) == 1)
    step = msgspec.structs.replace(step, graph=graph)
    return msgspec.structs.replace(step, age=age, budget=k if broken else budget, broken=broken)


def _fault(digits: Digits, one_in: int) -> tuple[str | None, Kind]:
    """Each place as often as any other, so that one step in so many has a fault."""
    number = digits.below(one_in * len(PLACES))
    if not 1 <= number <= len(PLACES):
        return None, "exception"
    kinds = kinds_at(PLACES[number - 1])
    return PLACES[number - 1], kinds[digits.below(len(kinds))]
