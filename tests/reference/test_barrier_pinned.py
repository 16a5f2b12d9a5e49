"""The draft MoE's barrier (section 13), by hand: who brings what, with which list."""

from collections.abc import Sequence

import pytest
from batches import gen, make_batch, small

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Collaborators

Call = tuple[int, int, list[int]]


class Boom(Exception):
    """A fault at a seam."""


def crossed(r: int, rank_rows: tuple[int, ...], fails: str = "", passes: int = 0) -> list[Call]:
    """The calls of a rank with two generations, K = 3 and three stages."""
    calls: list[Call] = []
    left = [passes]

    def at(seam: str) -> None:
        if seam == fails:
            left[0] -= 1
            if left[0] < 0:
                raise Boom

    def barrier(stage: int, rows: int, counts: Sequence[int]) -> None:
        calls.append((stage, rows, list(counts)))

    lent = Collaborators(at, lambda *_: ([], []), barrier=barrier)
    model = Model(small(num_stages=3), lent)
    batch = make_batch(gen(10, 5), gen(20, 6, 2), r=r, rank_rows=rank_rows)
    model.prepare(batch)
    if fails:
        with pytest.raises(Boom):
            model.forward(batch)
    else:
        model.forward(batch)
    return calls


def test_everybody_crosses_every_stage_with_its_own_rows() -> None:
    """If this fails, ranks bring rows that their peers do not expect, and the collective hangs."""
    assert crossed(3, (6, 0, 3)) == [(stage, 6, [6, 1, 3]) for stage in range(3)]


def test_who_drafts_nothing_brings_the_dummy_row() -> None:
    """If this fails, a zero-draft step waits for nobody, and its peers for it."""
    assert crossed(0, (0, 3)) == [(stage, 1, [1, 3]) for stage in range(3)]


def test_if_nobody_drafts_nobody_calls() -> None:
    """If this fails, a barrier is crossed that nobody else comes to."""
    assert crossed(0, (0, 0)) == []


@pytest.mark.parametrize("passes", [0, 1, 2])
def test_a_rank_that_fails_brings_the_dummy_row_to_the_stages_that_are_left(passes: int) -> None:
    """If this fails, one rank's fault stops all of them."""
    calls = crossed(3, (6, 6), "stage", passes)
    rows = [6] * passes + [1] * (3 - passes)
    assert calls == [(stage, rows[stage], [6, 6]) for stage in range(3)]


@pytest.mark.parametrize("seam", ["accept", "seed", "draft"])
def test_it_does_so_wherever_it_fails(seam: str) -> None:
    """If this fails, only a fault of the drafter is thought of."""
    assert crossed(3, (6, 6), seam) == [(stage, 1, [6, 6]) for stage in range(3)]
