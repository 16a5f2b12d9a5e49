"""What a benchmark says: figures, their goals, and how they are shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound that a figure should keep."""

    bound: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        """Whether the figure is on the right side."""
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table."""

    part: str
    name: str
    value: float
    unit: str
    goal: Goal | None = None

    def record(self) -> dict[str, Any]:
        """For JSON."""
        goal = self.goal
        return {
            "part": self.part,
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "goal": None if goal is None else str(goal),
            "met": None if goal is None else goal.met(self.value),
        }


def table(figures: Sequence[Figure]) -> list[str]:
    """The figures for people, as a table that Markdown understands."""
    rows = [("part", "figure", "value", "goal", "")]
    for figure in figures:
        goal, verdict = "", ""
        if figure.goal is not None:
            goal = str(figure.goal)
            verdict = "met" if figure.goal.met(figure.value) else "MISSED"
        rows.append((figure.part, figure.name, _value(figure), goal, verdict))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def _value(figure: Figure) -> str:
    digits = 0 if abs(figure.value) >= 1000 else 2 if abs(figure.value) < 100 else 1
    return f"{figure.value:,.{digits}f} {figure.unit}"


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of ratios."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))
