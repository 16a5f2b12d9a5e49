"""What a step must bring, checked before anything is written (sections 3, 6, 14, 15 and 19)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import isfinite

from draftproof.reference.vocabulary import ROW_COMPONENTS, Batch, BatchError, Config


def verify_windows(batch: Batch) -> Sequence[int]:
    """Logit rows per generation: its verify window, or 1 + r."""
    if batch.verify_lens is not None:
        return batch.verify_lens
    return [1 + batch.draft_len] * len(batch.generations)


def check_step(config: Config, batch: Batch) -> None:
    """Raise BatchError for what cannot be before the target has run."""
    r, windows = batch.draft_len, batch.verify_lens
    if not 0 <= r <= config.max_draft_len:
        raise BatchError(f"r = {r} is not in 0..{config.max_draft_len}")
    if windows is not None and len(windows) != len(batch.generations):
        raise BatchError(f"{len(windows)} verify windows for {len(batch.generations)} generations")
    if windows is not None and batch.verify_bucket not in (None, sum(windows)):
        raise BatchError(f"{sum(windows)} token rows, but the bucket is {batch.verify_bucket}")
    if token_rows(batch) > config.max_num_tokens:
        raise BatchError(
            f"{token_rows(batch)} token rows, but max_num_tokens is {config.max_num_tokens}"
        )
    _check_length("drafts", batch.drafts, len(batch.generations) * r)
    if config.target_logits:
        _check_length("prompt_tokens", batch.prompt_tokens, sum(row.told for row in batch.rows))


def check_answer(config: Config, batch: Batch) -> None:
    """Raise BatchError for what the target did not leave, and for numbers that cannot be."""
    for g, window in enumerate(batch.verify_lens or ()):
        if not 1 <= window <= 1 + batch.draft_len:
            raise BatchError(f"generation {g}: verify window {window} is not in 1..1 + r")
    _check_arrays(config, batch)
    for name in ("target_probs", "target_logits"):
        if not all(map(isfinite, getattr(batch, name) or ())):
            raise BatchError(f"{name}: a number that is not finite")
    for token in batch.target_tokens:
        if not 0 <= token < config.vocab_size:
            raise BatchError(f"target token {token} is not in 0..{config.vocab_size - 1}")


def token_rows(batch: Batch) -> int:
    """Of contexts and generations (section 1)."""
    return sum(row.length for row in batch.contexts) + sum(verify_windows(batch))


def _check_arrays(config: Config, batch: Batch) -> None:
    """Missing or ill-shaped ones are an error (section 6)."""
    verified, count, v = sum(verify_windows(batch)), len(batch.generations), config.vocab_size
    logits = len(batch.contexts) + verified
    _check_length("hidden", batch.hidden, token_rows(batch) * ROW_COMPONENTS)
    if config.target_logits:
        _check_length("target_logits", batch.target_logits, logits * v)
    else:
        _check_length("target_tokens", batch.target_tokens, logits)
    if not config.use_rejection_sampling or batch.all_greedy:
        return
    _check_length("target_probs", batch.target_probs, verified * v)
    given = {
        "accept_uniforms": count * batch.draft_len,
        "recover_uniforms": count,
        "draft_uniforms": count * config.max_draft_len,
    }
    if any(getattr(batch, name) is not None for name in given):  # else they are drawn
        for name, numbers in given.items():
            _check_length(name, getattr(batch, name), numbers)


def _check_length(name: str, values: array[int] | array[float] | None, count: int) -> None:
    if len(values or ()) != count:
        raise BatchError(f"{name}: {len(values or ())} numbers, but {count} belong to the step")
