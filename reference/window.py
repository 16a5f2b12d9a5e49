"""A request's rolling window of hidden rows, by frame (semantics, sections 2, 5 and 7)."""

from __future__ import annotations

from dataclasses import dataclass

from draftproof.reference.drafter import tags_over_stages
from draftproof.reference.vocabulary import Frames


@dataclass(frozen=True, slots=True)
class Captured:
    """A step's hidden rows, as each stage stores them, and each row's tag, summed over stages."""

    stages: list[Frames]
    tags: list[int]

    @classmethod
    def of(cls, rows: Frames, num_stages: int) -> Captured:
        """Of rows as they come, at stage 0."""
        stages = [rows.at_stage(stage) for stage in range(num_stages)]
        return cls(stages, tags_over_stages(rows, num_stages))


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

    def append(self, rows: Captured, first: int, count: int, last_frame: int) -> None:
        """Store `count` of the rows, from `first` on, as the frames up to `last_frame`.

        The oldest fall out. Lists are replaced, never changed, so earlier views stay valid.
        """
        self.stages = [
            stored.then(newer, first, count, self.size)
            for stored, newer in zip(self.stages, rows.stages, strict=True)
        ]
        self.tags = (self.tags + rows.tags[first : first + count])[-self.size :]
        self.last_frame = last_frame
        self.initialized = True
