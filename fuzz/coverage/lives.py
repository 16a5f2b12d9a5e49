"""What the journal says about each request: the facts that points are computed from."""

from __future__ import annotations

from dataclasses import dataclass

from draftproof.sim.events import Submit


@dataclass(slots=True)
class Life:
    """One incarnation.

    length: committed tokens; decoding: its prompt is through; step, row, draft_len: of the last
    batch that it was in; chunks: prompt chunks since it began or began again; under_way: a step
    whose tokens for it were not delivered; left_out: it was paused and in no batch since;
    before_gap: it had drafts, then steps without; restarted: how often.
    """

    request_id: int
    event: Submit
    length: int
    decoding: bool
    step: int | None = None
    row: int | None = None
    draft_len: int | None = None
    chunks: int = 0
    under_way: int | None = None
    left_out: bool = False
    had_drafts: bool = False
    in_gap: bool = False
    restarted: int = 0
    failed: bool = False

    @classmethod
    def of(cls, request_id: int, event: Submit) -> Life:
        """A request as submitted."""
        return cls(request_id, event, event.prompt, event.imported)

    @property
    def phase(self) -> str:
        """Where it is."""
        if self.step is None:
            return "waiting"
        if self.left_out:
            return "left out"
        return "decoding" if self.decoding else "prefilling"

    def restart(self) -> None:
        """It begins again from position 0."""
        self.restarted += 1
        self.decoding = False
        self.chunks = 0
        self.draft_len = self.under_way = self.row = None

    def drafts(self, draft_len: int) -> bool:
        """It decodes with r = `draft_len`; whether that ends steps without drafts."""
        ended = bool(draft_len) and self.had_drafts and self.in_gap
        self.in_gap = self.had_drafts and not draft_len
        self.had_drafts = self.had_drafts or draft_len > 0
        self.draft_len = draft_len
        return ended
