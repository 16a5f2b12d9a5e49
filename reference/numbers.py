"""The random numbers of a generation row: those of the batch, or its own (semantics, section 6).

A batch that brings none leaves every row to draw from its request's seed. The position in the
counter is that of the token that a number decides about: the anchor is at `row.position`, draft i
one place further, so a draft and the token that replaces it meet the numbers of one position.
"""

from __future__ import annotations

from draftproof.reference.philox import uniform
from draftproof.reference.vocabulary import PURPOSES, Batch

DRAFT, ACCEPT, RECOVER = map(PURPOSES.index, ("draft", "accept", "recover"))


def accept_uniforms(batch: Batch, g: int) -> list[float]:
    """One for each of the r drafts of generation g."""
    r = batch.draft_len
    if batch.accept_uniforms is not None:
        return batch.accept_uniforms[g * r : (g + 1) * r].tolist()
    return [_drawn(batch, g, 1 + i, ACCEPT) for i in range(r)]


def recover_uniform(batch: Batch, g: int, accepted: int) -> float:
    """That of the token behind the accepted drafts."""
    if batch.recover_uniforms is not None:
        return batch.recover_uniforms[g]
    return _drawn(batch, g, 1 + accepted, RECOVER)


def draft_uniforms(batch: Batch, g: int, count: int, block: int) -> list[float]:
    """One for each draft of the block behind the bonus; count: n, new tokens of this step."""
    if batch.draft_uniforms is not None:
        return batch.draft_uniforms[g * block : (g + 1) * block].tolist()
    return [_drawn(batch, g, count + 1 + k, DRAFT) for k in range(block)]


def _drawn(batch: Batch, g: int, ahead: int, purpose: int) -> float:
    row = batch.generations[g]
    return uniform(row.seed, row.incarnation, row.position + ahead, purpose)
