"""What the target may leave: checked before anything is written (semantics, sections 15 and 16)."""

from __future__ import annotations

from math import isfinite

from draftproof.reference.vocabulary import Batch, BatchError, Config


def check_answer(config: Config, batch: Batch) -> None:
    """Raise BatchError for hidden rows that are missing, and for numbers that cannot be."""
    if batch.hidden is None:
        raise BatchError("no hidden rows were captured in this step")
    for g, window in enumerate(batch.verify_lens or ()):
        if not 1 <= window <= 1 + batch.draft_len:
            raise BatchError(f"generation {g}: verify window {window} is not in 1..1 + r")
    for name in ("target_probs", "target_logits"):
        if not all(map(isfinite, getattr(batch, name) or ())):
            raise BatchError(f"{name}: a number that is not finite")
    for token in batch.target_tokens:
        if not 0 <= token < config.vocab_size:
            raise BatchError(f"target token {token} is not in 0..{config.vocab_size - 1}")
