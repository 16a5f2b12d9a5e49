"""Requests as the device knows them while the host has not heard of the last step yet (section 15).

An engine that overlaps builds a batch before the results of the last forward are there. The rows of
requests in that forward go on from what the worker itself has made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from draftproof.reference.vocabulary import Batch, ContextRow, GenerationRow, StepResult
from draftproof.sim.requests import Request


def device_view(request: Request, pending: tuple[Batch, StepResult] | None) -> Request:
    """The request with the pending result applied, whole: a device knows no stop and no limit.

    A copy if it is in that batch, else itself.
    """
    if pending is None:
        return request
    batch, result = pending
    own = [b for b, row in enumerate(batch.rows) if row.incarnation == request.incarnation]
    if not own:
        return request
    view = replace(request, output=list(request.output))
    b = own[0]
    tokens = result.new_tokens[b][: result.new_tokens_lens[b]]
    if moved_on(view, batch.rows[b], tokens):
        view.output += tokens
        view.length += len(tokens)
        view.drafts = list(result.next_draft_tokens[b])
    return view


def moved_on(request: Request, row: ContextRow | GenerationRow, tokens: Sequence[int]) -> bool:
    """Take in what a row has computed; whether its tokens count, as after a chunk they do not."""
    if isinstance(row, GenerationRow):
        request.computed += len(tokens)
        return True
    request.computed = row.first_position + row.length
    request.decoding = request.computed == request.length
    return request.decoding


def furthest_writes(batch: Batch) -> dict[int, int]:
    """Target KV rows that a batch in flight may write, by incarnation."""
    writes = {row.incarnation: row.first_position + row.length for row in batch.contexts}
    for row in batch.generations:
        writes[row.incarnation] = row.position + 1 + batch.draft_len
    return writes
