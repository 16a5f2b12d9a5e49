"""A request's rolling window of hidden rows, by frame (semantics, sections 2, 5 and 7)."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.reference.drafter import tag

Row = list[int]


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
        self.stages: list[list[Row]] = [[] for _ in range(self.num_stages)]
        self.tags: list[int] = []

    @property
    def valid_len(self) -> int:
        """How many frames are visible."""
        return len(self.tags)

    @property
    def first_frame(self) -> int:
        """The oldest visible frame."""
        return self.last_frame - len(self.tags) + 1

    def append(self, rows: Sequence[Row], last_frame: int) -> None:
        """Store consecutive rows, the last of them at `last_frame`; the oldest fall out.

        rows: [n][D] with stage 0. Lists are replaced, never changed, so earlier views stay valid.
        """
        stages = range(self.num_stages)
        self.stages = [
            (self.stages[stage] + [[*row[:-1], stage] for row in rows])[-self.size :]
            for stage in stages
        ]
        new_tags = [tag([*row[:-1], stage]) for row in rows for stage in stages]
        per_row = [
            sum(new_tags[i : i + self.num_stages]) for i in range(0, len(new_tags), self.num_stages)
        ]
        self.tags = (self.tags + per_row)[-self.size :]
        self.last_frame = last_frame
        self.initialized = True
