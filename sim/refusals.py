"""Batches that nobody may accept: BatchError, nothing changes (sections 3, 6, 14, 16 and 19)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from draftproof.reference.vocabulary import (
    PADDING_ID_BASE,
    Batch,
    Config,
    ContextRow,
    GenerationRow,
    Mode,
)
from draftproof.sim.packing import hidden_rows

UNKNOWN = 7
"""A request of nobody's; its incarnation is 9."""


def refused(config: Config) -> Iterator[tuple[str, Batch]]:
    """What `prepare` has to refuse, each with what is wrong about it."""
    most, block, room = config.max_num_requests, config.max_draft_len, config.max_num_tokens
    yield (
        f"there are more than {most} rows",
        _batch(0, [GenerationRow(PADDING_ID_BASE, 0, most, 0)] * (most + 1)),
    )
    if most > 1:
        yield (
            "an id stands twice in the batch",
            _batch(0, [GenerationRow(UNKNOWN, 9, slot, 3) for slot in (0, 1)]),
        )
    chunk = ContextRow(UNKNOWN, 9, 0, 0, 1)
    long = replace(chunk, length=room + 1)
    yield f"there are more than {room} token rows", _batch(0, chunks=[long])
    for r in (-1, block + 1):
        yield f"r = {r} is not in 0 .. {block}", _batch(r, chunks=[chunk])
    decoding = _one(config, "eager")
    yield "drafts are missing", replace(decoding, drafts=decoding.drafts[1:])
    if config.target_logits:
        yield "tokens of a prompt are missing", replace(decoding, prompt_tokens=None)
    if config.confidence_scheduling:
        windows: tuple[int, ...]
        for windows in ((), (1, 1)):
            told = f"there are {len(windows)} verify windows for one generation"
            yield told, replace(decoding, verify_lens=windows)
        off = replace(decoding, verify_lens=(1,), verify_bucket=2)
        yield "the verify windows miss their bucket", off


def unanswerable(config: Config) -> tuple[Batch, Iterator[tuple[str, Batch]]]:
    """A warm-up that `prepare` accepts, and what its forward has to refuse: wrong answers of the
    target, and arrays that are missing or too short.
    """
    good = _answered(config, _one(config, "warmup"), 1 + config.max_draft_len)
    return good, _unanswerable(config, good)


def _unanswerable(config: Config, good: Batch) -> Iterator[tuple[str, Batch]]:
    for name in _left(config):
        values = getattr(good, name)
        yield f"{name} has a number too few", _with(good, name, values[1:])
        yield f"{name} is missing", _with(good, name, None if name != "target_tokens" else _NONE)
    wrong: dict[str, tuple[float, ...]] = {
        "target_tokens": (-1, config.vocab_size),
        "target_logits": (float("nan"), float("inf")),
        "target_probs": (float("nan"), float("inf")),
    }
    for name in _left(config):
        for number in wrong.get(name, ()):
            values = getattr(good, name)[:]
            values[0] = number
            yield f"a number of {name} is {number}", _with(good, name, values)
    if config.confidence_scheduling:
        for window in (0, 2 + config.max_draft_len):
            wrong_one = replace(_answered(config, good, window), verify_lens=(window,))
            yield f"a verify window is {window}", wrong_one


_NONE = array("q")


def _left(config: Config) -> list[str]:
    """The arrays that a sampled step brings to its forward, those of the target first."""
    names = ["hidden", "target_logits" if config.target_logits else "target_tokens"]
    if config.use_rejection_sampling:
        names.append("target_probs")
    if config.use_rejection_sampling and not config.drawn_uniforms:
        names += ["accept_uniforms", "recover_uniforms", "draft_uniforms"]
    return names


def _with(batch: Batch, name: str, values: array[Any] | None) -> Batch:
    changed: dict[str, Any] = {name: values}
    return replace(batch, **changed)


def _one(config: Config, mode: Mode) -> Batch:
    """One generation that verifies a block, sampled if that is by rejection."""
    greedy = not config.use_rejection_sampling
    row = GenerationRow(UNKNOWN, 9, 0, 3, greedy=greedy, told=int(config.target_logits))
    batch = _batch(config.max_draft_len, [row], mode=mode)
    return replace(batch, prompt_tokens=array("q", [0])) if config.target_logits else batch


def _batch(
    r: int,
    rows: Sequence[GenerationRow] = (),
    chunks: Sequence[ContextRow] = (),
    mode: Mode = "eager",
) -> Batch:
    """A step before the target has run."""
    return Batch(
        step=0,
        mode=mode,
        draft_len=r,
        contexts=tuple(chunks),
        generations=tuple(rows),
        drafts=array("q", [0] * (len(rows) * r)),
        target_tokens=array("q"),
        hidden=None,
        all_greedy=all(row.greedy for row in rows),
    )


def _answered(config: Config, batch: Batch, window: int) -> Batch:
    """The same step of one generation, and what the target leaves for so many rows."""
    (row,), block, vocab = batch.generations, config.max_draft_len, config.vocab_size
    batch = replace(batch, hidden=hidden_rows([(row.incarnation, row.position, window)], 0))
    if config.target_logits:
        return replace(batch, target_logits=array("f", [0.0] * (window * vocab)))
    batch = replace(batch, target_tokens=array("q", [1] * window))
    if not config.use_rejection_sampling:
        return batch
    sure = array("f", [1.0, *[0.0] * (vocab - 1)]) * window
    if config.drawn_uniforms:
        return replace(batch, target_probs=sure)
    return replace(
        batch,
        target_probs=sure,
        accept_uniforms=array("f", [1.0] * block),
        recover_uniforms=array("f", [1.0]),
        draft_uniforms=array("f", [1.0] * block),
    )
