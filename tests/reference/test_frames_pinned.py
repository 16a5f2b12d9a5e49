"""Hidden rows packed in bytes read as the rows that they are."""

from draftproof.reference.frames import Frames

ROWS = [[1, 0, 5, 0, 9, 0, 0], [1, 0, 6, 0, 9, 0, 0], [1, 0, 7, 0, 9, 0, 0]]
PACKED = Frames(bytes(number for row in ROWS for number in row))


def test_they_are_a_list_of_rows() -> None:
    """If this fails, a difference is told of another row, or equal windows differ."""
    assert len(PACKED) == 3
    assert [PACKED[0], PACKED[1], PACKED[-1]] == ROWS
    assert list(PACKED) == ROWS == PACKED.tolist()
    assert ROWS == PACKED == Frames(PACKED.packed)
    assert ROWS[:2] != PACKED
    assert Frames(b"\xff" * 7)[0] == [-1] * 7
    assert repr(PACKED) == repr(ROWS)


def test_parts_stages_and_what_is_pushed_out() -> None:
    """If this fails, a window keeps frames of another place, or bears another stage's number."""
    assert PACKED.part(1, 1) == ROWS[1:2]
    assert PACKED.part(1, 0) == []
    assert PACKED.at_stage(2) == [[*row[:6], 2] for row in ROWS]
    assert PACKED.then(PACKED, 1, 1, 3) == [ROWS[1], ROWS[2], ROWS[1]]
    assert PACKED.then(PACKED, 1, 2, 9) == [*ROWS, ROWS[1], ROWS[2]]
    assert PACKED.then(PACKED, 2, 0, 2) == ROWS[1:]
