"""Engines that feed the wrong rows for a request."""

from __future__ import annotations

from draftproof.sim.engine import Engine
from draftproof.sim.events import Step
from draftproof.sim.requests import Request
from draftproof.sim.target import prompt_token


class OffsetsByRow(Engine):
    """In an overlapped step rows move on by what the row of the last batch accepted: LAG-2."""

    def _schedule(self, event: Step) -> list[Request]:
        ready = super()._schedule(event)
        counts = [] if self.pending is None else self.pending[1].new_tokens_lens
        for view, count in zip(ready, counts, strict=False):
            request = self.lives[view.incarnation]
            if view is not request and request.decoding:
                view.computed = request.computed + count
        return ready


class ResumeReadsPrompt(Engine):
    """A request that is computed again is fed as if it had no output yet: CTX-6."""

    def _token_at(self, request: Request, position: int) -> int:
        if request.decoding:
            return super()._token_at(request, position)
        return prompt_token(request.incarnation, position, self.config.vocab_size)


class OneRowPerDecode(Engine):
    """Prompts get the room that is left if every generation took one row: CAP-1."""

    def _room(self, generations: int, draft_len: int) -> int:
        return super()._room(generations, 0)
