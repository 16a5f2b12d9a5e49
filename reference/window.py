"""A request's rolling window of hidden rows, by frame (semantics, sections 2, 5 and 7)."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.reference.drafter import tags_over_stages
from draftproof.reference.vocabulary import Frames


class Window:
    """The visible frames of one slot, oldest first; the newest is `last_frame` = ctx_len.

    Rows are kept once per stage, with the stage as last component. Nothing else is kept: a frame
    that is not visible does not exist here. `tags` holds each frame's tag, summed over stages.
    """

    __slots__ = ("initialized", "last_frame", "num_stages", "size", "stages", "tags")

    def __init__(self, size: int, num_stages: int) -> None:
        self.size = size
        self.num_stages = num_stages
        self.clear()

    def clear(self) -> None:
        """As new: no frame visible, position 0, not initialized."""
        self.last_frame = 0
        self.initialized = False
        self.stages = [Frames()] * self.num_stages
        self.tags: list[int] = []

    @property
    def valid_len(self) -> int:
        """How many frames are visible."""
        return len(self.tags)

    @property
    def first_frame(self) -> int:
        """The oldest visible frame."""
        return self.last_frame - len(self.tags) + 1

    def append(self, stages: Sequence[Frames], last_frame: int) -> None:
        """Store consecutive rows, given for each stage, up to `last_frame`; the oldest fall out.

        Lists are replaced, never changed, so earlier views stay valid.
        """
        self.stages = [
            stored.then(rows, self.size) for stored, rows in zip(self.stages, stages, strict=True)
        ]
        self.tags = (self.tags + tags_over_stages(stages))[-self.size :]
        self.last_frame = last_frame
        self.initialized = True
