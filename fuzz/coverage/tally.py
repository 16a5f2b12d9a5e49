"""Coverage over many runs: counts, what is missing, and the report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from draftproof.fuzz.coverage.abstract import Transition
from draftproof.fuzz.coverage.catalogue import CATALOGUE
from draftproof.fuzz.coverage.observe import Observed

SHOWN = 12
"""How many missing points a report names; all of them are in the JSON."""


@dataclass(slots=True)
class Coverage:
    """What runs did, in their order; first: in which step, counted over all of them.

    Adding in the same order gives the same, however the runs were cut into pieces.
    """

    cases: int = 0
    steps: int = 0
    hits: dict[str, int] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    transitions: set[Transition] = field(default_factory=set)

    def add(self, seen: Observed) -> int:
        """Count one more run; returns how many transitions and points it was the first to have."""
        return self._extend(1, seen)

    def extend(self, later: Coverage) -> int:
        """Count what came behind all this."""
        return self._extend(later.cases, later)

    def _extend(self, cases: int, later: Observed | Coverage) -> int:
        before = len(self.transitions) + len(self.first)
        for name, count in later.hits.items():
            self.hits[name] = self.hits.get(name, 0) + count
            self.first.setdefault(name, self.steps + later.first[name])
        self.transitions |= later.transitions
        self.cases += cases
        self.steps += later.steps
        return len(self.transitions) + len(self.first) - before

    def missing(self, catalogue: Iterable[str] = CATALOGUE) -> list[str]:
        """Points that were never hit, in the order of the catalogue."""
        return [name for name in catalogue if name not in self.hits]

    def lines(self) -> list[str]:
        """For people."""
        missing = self.missing()
        rarest = sorted((count, name) for name, count in self.hits.items())[:3]
        lines = [
            f"coverage         {len(CATALOGUE) - len(missing)} of {len(CATALOGUE)} points, "
            f"{len(self.transitions):,} abstract transitions, in {self.steps:,} steps"
        ]
        for count, name in rarest:
            times = f"{count:,} time{'s' if count > 1 else ''}"
            lines.append(f"                 {name}: {times}, first in step {self.first[name]:,}")
        if missing:
            lines.append(f"never hit        {len(missing)} points")
            lines += [f"                 {name}: {CATALOGUE[name]}" for name in missing[:SHOWN]]
            if len(missing) > SHOWN:
                lines.append(f"                 and {len(missing) - SHOWN} more")
        return lines

    def record(self) -> dict[str, Any]:
        """For JSON: every point in the order of the catalogue, with when and how often."""
        points = {
            name: {"hits": self.hits.get(name, 0), "first": self.first.get(name)}
            for name in CATALOGUE
        }
        return {
            "cases": self.cases,
            "steps": self.steps,
            "points": points,
            "transitions": len(self.transitions),
        }
