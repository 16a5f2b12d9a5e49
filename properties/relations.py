"""What two runs of a worker must have in common (semantics, section 17: I6, I10, I11).

Each relation changes what must not matter. `spoiled` and `eager` leave everything that is expected
as it was, so `draftproof.sim.lockstep.check` judges them. `check_rows` lets a fresh worker serve
some rows of each batch only, or in another order, and looks at what belongs to those requests.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any, TypeVar

from draftproof.properties.broken import broken
from draftproof.reference.vocabulary import (
    IDLE_ID,
    ROW_COMPONENTS,
    UNDONE,
    Batch,
    Config,
    GenerationRow,
    StepResult,
    Worker,
    WorkerState,
)
from draftproof.sim.packing import hidden_rows, isolated
from draftproof.sim.run import Run
from draftproof.sim.shapes import listed

Choose = Callable[[Batch], Sequence[int]]
"""Which rows of a batch are served, by their index, contexts first; in this order."""

Number = TypeVar("Number", int, float)
Span = tuple[int, int]

PER_SLOT = (
    "ctx_len",
    "valid_len",
    "initialized",
    "windows",
    "confidence_logits",
)


PER_SEQ_SLOT = ("token_counts", "prompt_seen", "grammar_depth")


# I11, in the form "eager = replay"


def eager(run: Run) -> Run:
    """The same run without graphs: padding stays, results and states are expected as before."""
    steps = [
        replace(step, batch=replace(step.batch, mode="eager"))
        if step.batch.mode == "replay"
        else step
        for step in run.steps
    ]
    return replace(run, steps=steps)


# I6: nothing depends on a rejected row


def spoiled(run: Run) -> Run:
    """The same run with garbage wherever a draft was rejected; everything is expected as before."""
    steps = [
        replace(step, batch=spoil(run.config, step.batch, step.result.new_tokens_lens))
        if step.result is not None and step.batch.mode not in UNDONE
        else step
        for step in run.steps
    ]
    return replace(run, steps=steps)


def spoil(config: Config, batch: Batch, counts: Sequence[int]) -> Batch:
    """Garbage behind the first mismatch: hidden rows, the target's answers, drafts and numbers.

    counts: tokens that each row was given, so that of a generation's rows the first n count.
    """
    batch = isolated(batch)
    assert batch.hidden is not None
    contexts, r, v = len(batch.contexts), batch.draft_len, config.vocab_size
    for b, (first, end) in enumerate(token_spans(batch)[contexts:], start=contexts):
        n, width, g = counts[b], end - first, b - contexts
        for i in range((first + n) * ROW_COMPONENTS, end * ROW_COMPONENTS):
            batch.hidden[i] = 127
        logit = logit_spans(batch)[b][0]
        for i in range(logit + n, logit + width):
            if batch.target_logits is None:
                batch.target_tokens[i] = (batch.target_tokens[i] + 1) % v
            else:
                logits = batch.target_logits[i * v : (i + 1) * v]
                batch.target_logits[i * v : (i + 1) * v] = logits[-1:] + logits[:-1]
        if batch.target_probs is not None:
            for i in range(logit - contexts + n, logit - contexts + width):
                probs = batch.target_probs[i * v : (i + 1) * v]
                batch.target_probs[i * v : (i + 1) * v] = probs[-1:] + probs[:-1]
        for i in range(g * r + min(n, width - 1), (g + 1) * r):
            batch.drafts[i] = (batch.drafts[i] + 1) % v
            if batch.accept_uniforms is not None:
                batch.accept_uniforms[i] = 2.0**-12
    return batch


# I10: neighbours, slot number, order and padding do not matter


def only(incarnation: int) -> Choose:
    """One request alone."""
    return lambda batch: [b for b, row in enumerate(batch.rows) if row.incarnation == incarnation]


def reversed_rows(batch: Batch) -> list[int]:
    """Contexts last to first, then generations last to first, without idle and padding rows."""
    contexts = len(batch.contexts)
    real = [b for b, row in enumerate(batch.rows) if row.incarnation]
    return sorted(real, key=lambda b: (b >= contexts, -b))


def check_rows(run: Run, worker: Worker, choose: Choose, seq_slot: int | None = None) -> int:
    """Serve the chosen rows with a fresh worker; each must get what it got in the run.

    A step without any becomes an idle one, so does one that failed; warm-ups are left out.
    seq_slot: where all of them are put, if there is never more than one. Returns how many rows
    were compared. Raises the Divergence of I10.
    """
    compared = 0
    for step in run.steps:
        batch, result = step.batch, step.result
        if batch.mode in UNDONE or (result is None and step.fault in ("start", "assign")):
            continue  # in the latter, `prepare` did not come to its end
        rows = choose(batch) if result is not None else []
        other = isolated(
            cut(run.config, batch, rows, seq_slot) if rows else idle(run.config, batch)
        )
        worker.prepare(other)
        found = worker.forward(other)
        if not rows or result is None:
            continue
        state = worker.state()
        for i, b in enumerate(rows):
            wanted = view(run.config, batch, b, result, step.state)
            got = view(run.config, other, i, found, state)
            for name in wanted:
                if name in got and wanted[name] != got[name]:
                    told, of = f"{name}: {wanted[name]}", batch.rows[b]
                    broken("I10", told, got[name], step=batch.step, row=b, of=of)
        compared += len(rows)
    return compared


def view(
    config: Config, batch: Batch, b: int, result: StepResult, state: WorkerState
) -> dict[str, Any]:
    """All that a step says about one request, wherever its row and its slot are."""
    row, count = batch.rows[b], listed(result.new_tokens_lens)[b]
    assert state.slots is not None, "without `slots` nobody knows whose row is whose"
    slot = state.slots[row.request_id]
    seen = {
        "new_tokens": listed(result.new_tokens)[b][:count],
        "next_draft_tokens": listed(result.next_draft_tokens)[b],
        "next_new_tokens": listed(result.next_new_tokens)[b],
    }
    for name in PER_SLOT:
        if getattr(state, name) is not None:
            seen[name] = listed(getattr(state, name))[slot]
    for name in PER_SEQ_SLOT:
        if config.target_logits and getattr(state, name) is not None:
            seen[name] = listed(getattr(state, name))[row.seq_slot]
    if isinstance(row, GenerationRow):
        if state.batch_to_slot is not None:
            seen["batch_to_slot is its own"] = listed(state.batch_to_slot)[b] == slot
        if state.confidence_stamp is not None and batch.draft_len:  # until then the last owner's
            seen["confidence_stamp"] = listed(state.confidence_stamp)[slot]
    if config.use_rejection_sampling and batch.draft_len and state.draft_probs is not None:
        seen["draft_probs"] = listed(state.draft_probs)[row.seq_slot]
    return seen


def cut(config: Config, batch: Batch, rows: Sequence[int], seq_slot: int | None = None) -> Batch:
    """The batch with these rows only, in this order, contexts first; run eagerly."""
    contexts, r = len(batch.contexts), batch.draft_len
    generations = [b - contexts for b in rows if b >= contexts]
    moved: dict[str, Any] = {} if seq_slot is None else {"seq_slot": seq_slot}

    def per_generation(buffer: array[Number], size: int) -> array[Number]:
        return gathered(buffer, [(g, g + 1) for g in generations], size)

    tokens, logits = token_spans(batch), logit_spans(batch)
    changed: dict[str, Any] = {}
    assert batch.hidden is not None
    if batch.target_logits is None:
        changed["target_tokens"] = gathered(batch.target_tokens, [logits[b] for b in rows], 1)
    else:
        assert batch.prompt_tokens is not None
        spans = [logits[b] for b in rows]
        changed["target_logits"] = gathered(batch.target_logits, spans, config.vocab_size)
        told = list(pairwise(accumulate([row.told for row in batch.rows], initial=0)))
        changed["prompt_tokens"] = gathered(batch.prompt_tokens, [told[b] for b in rows], 1)
    if batch.target_probs is not None:
        spans = [logits[contexts + g] for g in generations]
        spans = [(first - contexts, end - contexts) for first, end in spans]
        changed["target_probs"] = gathered(batch.target_probs, spans, config.vocab_size)
    if batch.accept_uniforms is not None:
        assert batch.recover_uniforms is not None and batch.draft_uniforms is not None
        changed["accept_uniforms"] = per_generation(batch.accept_uniforms, r)
        changed["recover_uniforms"] = per_generation(batch.recover_uniforms, 1)
        changed["draft_uniforms"] = per_generation(batch.draft_uniforms, config.max_draft_len)
    if batch.verify_lens is not None:
        changed["verify_lens"] = tuple(batch.verify_lens[g] for g in generations)
    if batch.verify_budget is not None:  # a plan looks at everybody, so what it said is kept
        changed |= {"verify_budget": None, "verify_bucket": None, "confidences": None}
    return replace(
        batch,
        mode="eager",
        contexts=tuple(replace(batch.contexts[b], **moved) for b in rows if b < contexts),
        generations=tuple(replace(batch.generations[g], **moved) for g in generations),
        drafts=per_generation(batch.drafts, r),
        hidden=gathered(batch.hidden, [tokens[b] for b in rows], ROW_COMPONENTS),
        **changed,
    )


def idle(config: Config, batch: Batch) -> Batch:
    """The same step with nobody in it."""
    r = batch.draft_len
    dummy = GenerationRow(IDLE_ID, 0, config.max_num_requests, r)
    answer: dict[str, Any] = {"target_tokens": array("q", [1] * (1 + r))}
    if config.target_logits:
        logits = array("f", [0.0] * ((1 + r) * config.vocab_size))
        no_tokens = array("q")
        answer = {
            "target_tokens": no_tokens,
            "target_logits": logits,
            "prompt_tokens": no_tokens,
        }
    return Batch(
        step=batch.step,
        mode="eager",
        draft_len=r,
        contexts=(),
        generations=(dummy,),
        drafts=array("q", [1] * r),
        hidden=hidden_rows([(0, r, 1 + r)], batch.step),
        **answer,
    )


def gathered(buffer: array[Number], spans: Sequence[Span], size: int) -> array[Number]:
    """The rows of these spans, one after the other; a row has `size` numbers."""
    rows = buffer[:0]
    for first, end in spans:
        rows += buffer[first * size : end * size]
    return rows


def token_spans(batch: Batch) -> list[Span]:
    """The token rows of each row of the batch: the first one, and the one behind the last."""
    return _spans([row.length for row in batch.contexts], batch)


def logit_spans(batch: Batch) -> list[Span]:
    """The logit rows of each row of the batch: the first one, and the one behind the last."""
    return _spans([1] * len(batch.contexts), batch)


def _spans(contexts: list[int], batch: Batch) -> list[Span]:
    widths = batch.verify_lens or [1 + batch.draft_len] * len(batch.generations)
    ends = list(accumulate([*contexts, *widths], initial=0))
    return list(pairwise(ends))
