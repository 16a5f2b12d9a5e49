"""Hidden rows as they are kept and compared: packed in bytes (semantics, section 8a)."""

from __future__ import annotations

from collections.abc import Iterator

ROW_COMPONENTS = 7
"""A hidden row: incarnation, position and step as two base-128 digits each (low digit first),
then the stage, which is 0 until the row is stored in a stage's window (section 8a)."""


class Frames:
    """Consecutive hidden rows, packed, D signed bytes each. Reads as a list of rows, equals one.

    A whole window is copied, kept and compared as one string of bytes.
    """

    __slots__ = ("packed",)

    def __init__(self, packed: bytes = b"") -> None:
        self.packed = packed

    def at_stage(self, stage: int) -> Frames:
        """The same rows with their last component, the stage, replaced."""
        packed = bytearray(self.packed)
        packed[ROW_COMPONENTS - 1 :: ROW_COMPONENTS] = bytes((stage,)) * len(self)
        return Frames(bytes(packed))

    def part(self, first: int, count: int) -> Frames:
        """Rows first .. first + count - 1."""
        return Frames(self.packed[first * ROW_COMPONENTS : (first + count) * ROW_COMPONENTS])

    def then(self, rows: Frames, first: int, count: int, most: int) -> Frames:
        """These, and behind them `count` of the rows given, from `first` on; the last `most`."""
        newer = rows.packed[first * ROW_COMPONENTS : (first + count) * ROW_COMPONENTS]
        return Frames((self.packed + newer)[-most * ROW_COMPONENTS :])

    def tolist(self) -> list[list[int]]:
        """[rows][D]."""
        flat = memoryview(self.packed).cast("b").tolist()
        return [flat[i : i + ROW_COMPONENTS] for i in range(0, len(flat), ROW_COMPONENTS)]

    def __len__(self) -> int:
        return len(self.packed) // ROW_COMPONENTS

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.tolist())

    def __getitem__(self, index: int) -> list[int]:
        return self.tolist()[index]

    def __eq__(self, other: object) -> bool:
        return self.packed == other.packed if isinstance(other, Frames) else self.tolist() == other

    def __repr__(self) -> str:
        return repr(self.tolist())
