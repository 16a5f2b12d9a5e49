"""Corrupted statistics: what an engine must not publish."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from draftproof.properties.history import History
from draftproof.sim.journal import Published
from draftproof.sim.statistics import Counts
from planted.facts import breaks


def _copied(entry: Published) -> tuple[Published, list[int]]:
    """A copy to be changed, and the incarnations that had drafts verified."""
    mine = Published(copy.deepcopy(entry.statistics))
    drafting = [own for own, c in mine.statistics.requests.items() if sum(c.verified)]
    return mine, drafting


@breaks("I20", Published, "one more emitted")
def that_do_not_add_up(entry: Published, history: History) -> Published | None:
    mine, drafting = _copied(entry)
    for own in drafting:
        mine.statistics.requests[own].emitted += 1
        return mine
    return None


@breaks("I20", Published, "in total")
def a_total_that_does_not_add_up(entry: Published, history: History) -> Published:
    mine, _ = _copied(entry)
    mine.statistics.total.dropped += 1
    return mine


@breaks("I20", Published)
def a_request_left_out(entry: Published, history: History) -> Published | None:
    mine, drafting = _copied(entry)
    for own in drafting:
        del mine.statistics.requests[own]
        return mine
    return None


@breaks("I20", Published)
def a_total_that_is_not_the_sum(entry: Published, history: History) -> Published:
    mine, _ = _copied(entry)
    mine.statistics.total.results += 1
    mine.statistics.total.emitted += 1
    return mine


@breaks("I20", Published)
def waste_that_nobody_saw(entry: Published, history: History) -> Published:
    mine, _ = _copied(entry)
    mine.statistics.wasted += 1
    return mine


def _drafted(counts: Counts) -> None:
    counts.drafted[0] += 1


def _verified(counts: Counts) -> None:
    counts.verified[-1] += 1


def _accepted(counts: Counts) -> None:
    counts.accepted[0] += 1
    counts.emitted += 1


def _at_another_position(counts: Counts) -> None:
    counts.accepted.reverse()


def _guessed(counts: Counts) -> None:
    counts.guessed += 1
    counts.emitted += 1


def _dropped(counts: Counts) -> None:
    counts.dropped += 1
    counts.emitted -= 1


def _everywhere() -> Iterator[None]:
    """Numbers that add up, in a request and in the total alike, but are not the journal's."""
    changes: tuple[Callable[[Counts], None], ...] = (
        _drafted, _verified, _accepted, _at_another_position, _guessed, _dropped,
    )  # fmt: skip
    for change in changes:

        @breaks("I20", Published, change.__name__)
        def other_counts(
            entry: Published, history: History, change: Callable[[Counts], None] = change
        ) -> Published | None:
            mine, drafting = _copied(entry)
            for own in drafting:
                before = copy.deepcopy(mine.statistics.requests[own])
                change(mine.statistics.requests[own])
                change(mine.statistics.total)
                if mine.statistics.requests[own] != before:
                    return mine
            return None

        yield


assert list(_everywhere()), "which registers them"
