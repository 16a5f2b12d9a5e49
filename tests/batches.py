"""Small batches for tests, written by hand: no engine, no packing of the project's own."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import (
    Batch,
    Collaborators,
    Config,
    ContextRow,
    GenerationRow,
    Mode,
    StepResult,
    WorkerState,
)
from draftproof.sim.guide import lend

Row = ContextRow | GenerationRow


def small(**changes: Any) -> Config:
    """A configuration of K = 3, W = 8, one stage and three slots, changed as said."""
    sizes: dict[str, Any] = {
        "max_draft_len": 3,
        "window_size": 8,
        "num_stages": 1,
        "max_num_requests": 3,
    }
    return Config(**{**sizes, **changes})


def ctx(request: int, first: int, length: int, incarnation: int = 1, **more: Any) -> ContextRow:
    return ContextRow(request, incarnation, more.pop("seq_slot", 0), first, length, **more)


def gen(request: int, position: int, incarnation: int = 1, **more: Any) -> GenerationRow:
    return GenerationRow(request, incarnation, more.pop("seq_slot", 0), position, **more)


def tagged(incarnation: int, position: int, step: int = 0, stage: int = 0) -> list[int]:
    """A hidden row as section 8a describes it."""
    numbers = (incarnation, position, step)
    return [digit for n in numbers for digit in (n % 128, n // 128 % 128)] + [stage]


def make_batch(
    *rows: Row,
    r: int = 0,
    counts: Sequence[int] = (),
    step: int = 0,
    mode: Mode = "eager",
    **more: Any,
) -> Batch:
    """A batch of tagged rows. Generation g keeps `counts[g]` tokens, else 1.

    Every draft is 0, and so is the target's answer as often as the count says; then it is 1.
    """
    contexts = tuple(row for row in rows if isinstance(row, ContextRow))
    generations = tuple(row for row in rows if isinstance(row, GenerationRow))
    windows = more.get("verify_lens") or [1 + r] * len(generations)
    hidden: list[int] = []
    for chunk in contexts:
        for position in range(chunk.first_position, chunk.first_position + chunk.length):
            hidden += tagged(chunk.incarnation, position, step)
    target = [1] * len(contexts)
    for g, (row, window) in enumerate(zip(generations, windows, strict=True)):
        kept = counts[g] - 1 if counts else 0
        target += [0] * kept + [1] * (window - kept)
        for position in range(row.position, row.position + window):
            hidden += tagged(row.incarnation, position, step)
    given = {
        "drafts": array("q", [0] * (r * len(generations))),
        "target_tokens": array("q", target),
        "hidden": array("b", hidden),
    }
    return Batch(step, mode, r, contexts, generations, **{**given, **more})


def sampled(
    *rows: Row,
    r: int,
    v: int = 8,
    q: Sequence[Sequence[float]] = (),
    accept: float = 0.5,
    recover: float = 0.5,
    draft: Sequence[float] = (),
    **more: Any,
) -> Batch:
    """`make_batch` with rejection sampling over v tokens; what is not given is even, or one half.

    q: per logit row of the generations; accept, recover: for all rows; draft: [G, 3].
    """
    plain = make_batch(*rows, r=r, **more)
    g, logits = len(plain.generations), len(plain.target_tokens) - len(plain.contexts)
    return replace(
        plain,
        all_greedy=False,
        target_probs=array("f", [mass for row in q or [[1 / v] * v] * logits for mass in row]),
        accept_uniforms=array("f", [accept] * (g * r)),
        recover_uniforms=array("f", [recover] * g),
        draft_uniforms=array("f", draft or [0.5] * (g * 3)),
    )


def lent(config: Config, at: Callable[[str], None] = lambda seam: None) -> Collaborators:
    """What a worker gets; unless `at` says otherwise, no faults are injected."""
    return lend(config, at)


def make_model(config: Config, at: Callable[[str], None] = lambda seam: None) -> Model:
    return Model(config, lent(config, at))


def run(model: Model, batch: Batch) -> StepResult:
    """One step."""
    model.prepare(batch)
    return model.forward(batch)


def serve(model: Model, *rows: Row, **more: Any) -> StepResult:
    """One step of `make_batch`."""
    return run(model, make_batch(*rows, **more))


def snapshot(model: Model) -> dict[str, str]:
    """Every field of the state, by value, and whose incarnation holds each slot."""
    state = model.state()
    shown = {field.name: repr(getattr(state, field.name)) for field in fields(WorkerState)}
    return {**shown, "owned": repr(model.slots.owned)}
