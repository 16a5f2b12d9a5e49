"""What makes a batch unacceptable, found before anything changes (sections 3, 6 and 16)."""

from __future__ import annotations

from array import array
from math import isfinite

from draftproof.gpu.slots import is_padding
from draftproof.reference.vocabulary import ROW_COMPONENTS, Batch, BatchError, Config


def check_rows(batch: Batch, config: Config) -> None:
    """Raise BatchError for what is wrong before the target has run."""
    block = config.max_draft_len
    if not 0 <= batch.draft_len <= block:
        raise BatchError(f"draft length {batch.draft_len} is not in 0 .. {block}")
    _check_rows([row.request_id for row in batch.rows], config)
    _check_windows(batch)
    _expect("drafts", batch.drafts, len(batch.generations) * batch.draft_len)
    if config.target_logits:
        _expect("prompt_tokens", batch.prompt_tokens, sum(row.told for row in batch.rows))
    tokens = _token_rows(batch)
    if tokens > config.max_num_tokens:
        raise BatchError(f"{tokens} token rows in a batch, more than {config.max_num_tokens}")


def check_batch(batch: Batch, config: Config) -> None:
    """Raise BatchError if no worker of this configuration may accept the batch."""
    check_rows(batch, config)
    _check_buffers(batch, config)
    _check_numbers(batch, config)


def uses_rejection(batch: Batch, config: Config) -> bool:
    """Whether this step uses rejection sampling (section 6)."""
    return config.use_rejection_sampling and not batch.all_greedy


def draws_numbers(batch: Batch) -> bool:
    """Whether a step with rejection sampling leaves its random numbers to the worker."""
    numbers = batch.accept_uniforms, batch.recover_uniforms, batch.draft_uniforms
    return all(buffer is None for buffer in numbers)


def generation_rows(batch: Batch) -> int:
    """Packed token rows, or logit rows, of all generations (section 1)."""
    if batch.verify_lens is None:
        return len(batch.generations) * (1 + batch.draft_len)
    return sum(batch.verify_lens)


def _token_rows(batch: Batch) -> int:
    return sum(row.length for row in batch.contexts) + generation_rows(batch)


def _check_rows(ids: list[int], config: Config) -> None:
    block, most = config.max_draft_len, config.max_num_requests
    if len(ids) > most:
        raise BatchError(f"{len(ids)} rows in a batch, but there are {most} slots")
    named = [i for i in ids if not is_padding(i, block)]
    if len(set(named)) < len(named):
        twice = next(i for i in named if named.count(i) > 1)
        raise BatchError(f"request {twice} is twice in the batch")


def _check_windows(batch: Batch) -> None:
    windows = batch.verify_lens
    if windows is None:
        return
    if len(windows) != len(batch.generations):
        raise BatchError(f"{len(windows)} verify windows for {len(batch.generations)} generations")
    for window in windows:
        if not 1 <= window <= 1 + batch.draft_len:
            raise BatchError(f"verify window {window} is not in 1 .. {1 + batch.draft_len}")
    if batch.verify_bucket not in (None, sum(windows)):
        raise BatchError(f"{sum(windows)} token rows in a bucket of {batch.verify_bucket}")


def _check_buffers(batch: Batch, config: Config) -> None:
    generations, r, rows = len(batch.generations), batch.draft_len, generation_rows(batch)
    logits = len(batch.contexts) + rows
    if config.target_logits:
        _expect("target_logits", batch.target_logits, logits * config.vocab_size)
        logits = 0
    _expect("target_tokens", batch.target_tokens, logits)
    _expect("hidden", batch.hidden, _token_rows(batch) * ROW_COMPONENTS)
    if uses_rejection(batch, config):
        _expect("target_probs", batch.target_probs, rows * config.vocab_size)
    if uses_rejection(batch, config) and not draws_numbers(batch):
        _expect("accept_uniforms", batch.accept_uniforms, generations * r)
        _expect("recover_uniforms", batch.recover_uniforms, generations)
        _expect("draft_uniforms", batch.draft_uniforms, generations * config.max_draft_len)


def _check_numbers(batch: Batch, config: Config) -> None:
    """What a failed target leaves: on the host, where the batch still is, so nothing waits."""
    tokens = batch.target_tokens
    if tokens and not 0 <= min(tokens) <= max(tokens) < config.vocab_size:
        raise BatchError(f"target_tokens are not all in 0 .. {config.vocab_size - 1}")
    for name in ("target_probs", "target_logits"):
        buffer = getattr(batch, name)
        if buffer and not isfinite(sum(buffer)):
            raise BatchError(f"{name} are not all finite")


def _expect(
    name: str,
    buffer: array[int] | array[float] | None,
    count: int,
) -> None:
    """An absent buffer is as good as an empty one."""
    if buffer is None:
        if count:
            raise BatchError(f"{name} is missing, {count} numbers expected")
    elif len(buffer) != count:
        raise BatchError(f"{name} has {len(buffer)} numbers, {count} expected")
