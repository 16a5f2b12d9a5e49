"""Which points of the catalogue a step of its own is, whatever came before it."""

from __future__ import annotations

from collections.abc import Iterator

from draftproof.fuzz.coverage.catalogue import FAR, MOST_DRAFTS
from draftproof.fuzz.coverage.lives import Life
from draftproof.reference.vocabulary import (
    NO_PENALTIES,
    UNDONE,
    Batch,
    Config,
    ContextRow,
    GenerationRow,
    StepResult,
    WorkerState,
)
from draftproof.sim.events import Step, Warmup
from draftproof.sim.journal import Look


def shape(batch: Batch) -> str:
    """What a step is, as `catalogue.SHAPES` has it."""
    if batch.mode == "replay":
        return "replayed"
    if batch.mode in UNDONE:
        return "warm-up" if batch.mode == "warmup" else batch.mode
    if batch.contexts:
        return "mixed" if batch.generations else "prompt"
    return "decoding" if any(row.incarnation for row in batch.generations) else "idle"


def about_batch(config: Config, batch: Batch, event: Step) -> Iterator[str]:
    """What stands in a batch that is not undone."""
    real = [row for row in batch.generations if row.incarnation]
    yield (
        "batch/"
        + {
            (True, True): "mixed",
            (True, False): "prompts only",
            (False, True): "decoding only",
            (False, False): "idle",
        }[bool(batch.contexts), bool(real)]
    )
    named = {
        "batch/full": len(batch.contexts) + len(real) == config.max_num_requests,
        "batch/several prompts": len(batch.contexts) > 1,
        "batch/large": len(batch.contexts) + len(real) > 8,
        "batch/autonomous": config.target == "autonomous",
        "batch/poisoned": config.poison,
        "batch/stages": config.num_stages >= 5,
        "size/requests": len(real) > 32,
        "size/stages": config.num_stages > 5 and bool(real) and batch.draft_len > 0,
        "graph/asked for beside a prompt": bool(
            event.graph and batch.contexts and config.graph_batch_sizes
        ),
    }
    yield from (name for name, true in named.items() if true)
    yield from _about_schedule(config, batch)
    if config.confidence_scheduling:
        yield from _about_windows(batch, len(real))
    if batch.mode == "replay":
        padding = len(batch.generations) - max(1, len(real))
        yield f"graph/replayed {'with' if padding else 'without'} padding"
        if not real:
            yield "graph/replayed idle"
        if not batch.draft_len:
            yield "graph/replayed without drafts"


def _about_schedule(config: Config, batch: Batch) -> Iterator[str]:
    if config.draft_len_schedule is not None and not batch.draft_len:
        yield "length/scheduled zero"


def _about_windows(batch: Batch, real: int) -> Iterator[str]:
    if batch.verify_budget is not None:
        yield "ragged/planned"
        if batch.mode == "replay":
            yield "ragged/planned and replayed"
    if batch.verify_lens is None:
        yield "ragged/uniform under scheduling"
        return
    windows = batch.verify_lens[:real]
    if not windows:
        return
    yield f"ragged/{'mixed' if batch.contexts else 'decoding only'}"
    named = {
        "ragged/replayed": batch.mode == "replay",
        "ragged/anchor alone": batch.draft_len > 0 and 1 in windows,
        "ragged/all full": set(windows) == {1 + batch.draft_len},
        "ragged/of many lengths": len(set(windows)) > 2,
    }
    yield from (name for name, true in named.items() if true)


def about_sampling(config: Config, batch: Batch) -> Iterator[str]:
    """How a step that is not undone is accepted."""
    real = [row for row in batch.generations if row.incarnation]
    if not real:
        return
    sampled = [row for row in real if not row.greedy]
    if batch.target_probs is None:
        if config.use_rejection_sampling:
            yield "sampling/all greedy"
        elif sampled:
            yield "sampling/strict"
        return
    named = {
        "sampling/step": True,
        "sampling/greedy beside sampled": 0 < len(sampled) < len(real),
        "sampling/placeholders": any(0 < row.proposed < batch.draft_len for row in sampled),
        "sampling/own numbers": config.drawn_uniforms,
        "sampling/narrow": config.d2t is not None,
        "size/sampled": config.vocab_size > 64,
    }
    yield from (name for name, true in named.items() if true)


def about_logits(config: Config, batch: Batch) -> Iterator[str]:
    """What the worker does to the target's logits."""
    if not config.target_logits:
        return
    yield "logits/step"
    for row in batch.rows:
        guided, penalised = row.grammar > 0, row.penalties != NO_PENALTIES
        named = {"grammar": guided, "penalties": penalised, "both": guided and penalised}
        yield from (f"logits/{name}" for name, true in named.items() if true)
        if (guided or penalised) and config.vocab_size > 64:
            yield "size/guided"


def about_look(look: Look, event: Step) -> Iterator[str]:
    """What the host knew when it asked for a planned step."""
    if look.confidences is None:
        yield "ragged/planned blindly"
    elif look.age == 2:
        yield "ragged/planned by old confidences"
    if event.broken:
        yield "ragged/planned by broken confidences"


def about_warmup(batch: Batch, event: Warmup, running: bool) -> Iterator[str]:
    """What a step is that leaves no trace."""
    live = event.live and running
    named = {
        "with a prompt": bool(batch.contexts),
        "without drafts": not batch.draft_len,
        "sampled": event.sampled,
        "under live names": live and batch.mode == "warmup",
        "capture": batch.mode == "capture",
        "capture under live names": live and batch.mode == "capture",
    }
    yield from (f"warm-up/{name}" for name, true in named.items() if true)


def about_prompt(config: Config, row: ContextRow, life: Life, event: Step) -> Iterator[str]:
    """A chunk of a request; `life` is as it was before."""
    if life.restarted:
        if row.first_position and life.chunks == 1:
            yield "recompute/in chunks"
        return
    last = row.last
    whole = life.length - row.first_position
    asked = event.chunk or whole
    named = {
        "one chunk": last and not life.chunks and not life.event.reused,
        "several chunks": last and life.chunks > 0,
        "many chunks": last and life.chunks > 3,
        "one token": life.event.prompt == 1,
        "longer than the window": not life.chunks and whole > config.window_size,
        "within the budget": row.length < min(whole, asked),
    }
    if not life.chunks and row.first_position:
        named["reused whole" if whole == 1 else "reused in part"] = True
    yield from (f"prompt/{name}" for name, true in named.items() if true)


def about_acceptance(batch: Batch, g: int, result: StepResult) -> Iterator[str]:
    """How many drafts of generation g were accepted, of those that were to verify."""
    window = batch.draft_len if batch.verify_lens is None else batch.verify_lens[g] - 1
    accepted = result.new_tokens_lens[len(batch.contexts) + g] - 1
    if window <= MOST_DRAFTS:
        yield f"accepted/{accepted} of {window}"
    if window > 8:
        yield "size/block"
    if 0 < accepted == window < batch.draft_len:
        yield "ragged/accepted to its end"


def about_window(
    config: Config, row: ContextRow | GenerationRow, stored: int, valid: int, last_frame: int
) -> Iterator[str]:
    """What storing rows did to a window. valid: of it before; last_frame: of it afterwards."""
    chunk = isinstance(row, ContextRow)
    if valid + stored == config.window_size:
        yield "window/full to the last column"
    if valid + stored > config.window_size:
        yield f"window/wraps in a {'chunk' if chunk else 'step'}"
    if chunk:
        return
    named = {
        "window/less than accepted": stored > config.window_size,
        "window/not full": valid + stored < config.window_size,
        "window/one column": config.window_size == 1,
        "size/window": valid > 65,
    }
    yield from (name for name, true in named.items() if true)
    yield from (f"position/beyond {far}" for far in FAR if last_frame > far)


def frames_of(state: WorkerState, request_id: int) -> tuple[int | None, int, int]:
    """Slot, valid_len and ctx_len of a request, or None and zeros."""
    slot = (state.slots or {}).get(request_id)
    if slot is None:
        return None, 0, 0
    return slot, state.valid_len[slot], state.ctx_len[slot]
