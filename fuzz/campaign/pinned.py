"""Makes small traces that together hit every point of the catalogue (`tests/data/points`).

Run as `python -m draftproof.fuzz.campaign.pinned --corpus tests/data/points`. What is there already
is kept as far as it is of use, so only points that are new are looked for.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from draftproof.fuzz.campaign.chunks import mixed_case
from draftproof.fuzz.campaign.corpus import Corpus
from draftproof.fuzz.campaign.minimal import distil, head_that_covers, minimised, points
from draftproof.fuzz.coverage.catalogue import CATALOGUE
from draftproof.fuzz.coverage.observe import observe
from draftproof.sim.traces import Trace


def find(corpus: Corpus, seed: int, most_cases: int) -> list[str]:
    """Keep a trace for every point that has none; returns those that were not met."""
    known = {name for trace in corpus.covering() for name in points(trace)}
    for index in range(most_cases):
        if known >= CATALOGUE.keys():
            break
        run = mixed_case(seed, index)
        new = frozenset(observe(run).hits) - known
        if new:
            known |= new
            trace = Trace(config=run.config, events=tuple(run.events))
            corpus.keep(head_that_covers(trace, new, points))
    return [name for name in CATALOGUE if name not in known]


def main() -> int:
    """Exit code 6 if a point was not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=20_000)
    arguments = parser.parse_args()
    corpus = Corpus(arguments.corpus)
    missing = find(corpus, arguments.seed, arguments.cases)
    before = corpus.covering()
    kept = distil(minimised(distil(before, points), cover=points), points)
    for trace in kept:
        corpus.keep(trace)
    for trace in before:
        if trace not in kept:
            corpus.drop(trace)
    events = sum(len(trace.events) for trace in kept)
    print(f"{len(kept)} traces of {events} events; not met: {', '.join(missing) or 'nothing'}")
    return 6 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
