"""Makes a trace smaller that keeps what it covers, and a corpus that keeps its coverage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from draftproof.fuzz.coverage.observe import Observed, observe
from draftproof.fuzz.shrink import shrink
from draftproof.sim.run import replay
from draftproof.sim.traces import Trace, cut, encode

Element = object
"""A point or a transition."""

MOST_TRIES = 150
"""Candidates that are tried to make one trace smaller."""


Cover = Callable[[Trace], frozenset[Element]]
"""What is to be kept of a trace."""


def elements(seen: Observed) -> frozenset[Element]:
    """All that a run covers."""
    return frozenset(seen.hits) | seen.transitions


def covered(trace: Trace) -> frozenset[Element]:
    """All that a trace covers, by running it."""
    return elements(observe(replay(trace.config, trace.alone)))


def points(trace: Trace) -> frozenset[Element]:
    """The points of the catalogue that a trace hits."""
    return frozenset(observe(replay(trace.config, trace.alone)).hits)


def smaller(
    trace: Trace, wanted: Iterable[Element], tries: int = MOST_TRIES, cover: Cover = covered
) -> Trace:
    """A smaller trace that still covers what is wanted of this one; found in so many tries."""
    wanted, left = frozenset(wanted), [tries]

    def good(candidate: Trace) -> bool:
        left[0] -= 1
        return left[0] >= 0 and wanted <= cover(candidate)

    return shrink(trace, good)


def head_that_covers(trace: Trace, wanted: frozenset[Element], cover: Cover = covered) -> Trace:
    """The shortest head of a trace that covers what is wanted, found by halving."""
    short, enough = 0, len(trace.events)
    while enough - short > 1:
        middle = (short + enough) // 2
        if wanted <= cover(cut(trace, trace.events[:middle])):
            enough = middle
        else:
            short = middle
    return cut(trace, trace.events[:enough])


def minimised(
    traces: Sequence[Trace], tries: int = MOST_TRIES, cover: Cover = covered
) -> list[Trace]:
    """The traces made smaller one after another; together they still cover all that they did."""
    small = list(traces)
    covers = [cover(trace) for trace in small]
    for index, trace in enumerate(small):
        others = frozenset[Element]().union(*covers[:index], *covers[index + 1 :])
        small[index] = smaller(trace, covers[index] - others, tries, cover)
        covers[index] = cover(small[index])
    return small


def distil(traces: Sequence[Trace], cover: Cover = covered) -> list[Trace]:
    """Traces that together cover what all of them do, each of them something alone.

    Short ones are preferred. The same set of traces always gives the same.
    """
    order = sorted(traces, key=lambda trace: (len(trace.events), encode(trace)))
    covers = [cover(trace) for trace in order]
    known: set[Element] = set()
    kept = []
    for index, own in enumerate(covers):
        if not own <= known:
            known |= own
            kept.append(index)
    for index in reversed(kept.copy()):
        others = frozenset[Element]().union(*(covers[i] for i in kept if i != index))
        if covers[index] <= others:
            kept.remove(index)
    return [order[index] for index in kept]
