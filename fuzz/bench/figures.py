"""What a benchmark says: figures, their goals, and how they are shown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
    """One cell of a part's table: a row's name and unit, and a column."""

    part: str
    name: str
    column: str
    value: float
    unit: str
    goal: Goal | None = None

    def record(self) -> dict[str, Any]:
        """For JSON."""
        goal = self.goal
        return {
            "part": self.part,
            "name": self.name,
            "column": self.column,
            "value": self.value,
            "unit": self.unit,
            "goal": None if goal is None else str(goal),
            "met": None if goal is None else goal.met(self.value),
        }

    def cell(self) -> str:
        """For people."""
        digits = 0 if abs(self.value) >= 1000 else 1 if abs(self.value) >= 100 else 2
        digits = 3 if self.unit == "s" else digits
        text = f"{self.value:,.{digits}f}" + ("x" if self.unit == "x" else "")
        if self.goal is None:
            return text
        return f"{text} ({self.goal} {'met' if self.goal.met(self.value) else 'MISSED'})"


def tables(figures: Sequence[Figure]) -> list[str]:
    """A table for each part, as Markdown has them."""
    lines: list[str] = []
    for part in dict.fromkeys(figure.part for figure in figures):
        lines += _table(part, [figure for figure in figures if figure.part == part])
        lines.append("")
    return lines[:-1]


def _table(part: str, figures: Sequence[Figure]) -> Iterator[str]:
    columns = list(dict.fromkeys(figure.column for figure in figures))
    units = {figure.name: figure.unit for figure in figures if figure.unit != "x"}
    cells = {(figure.name, figure.column): figure.cell() for figure in figures}
    grid = [[part, *columns]]
    for name in dict.fromkeys(figure.name for figure in figures):
        label = f"{name}, {units[name]}" if name in units else name
        grid.append([label, *(cells.get((name, column), "") for column in columns)])
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    grid.insert(1, ["-" * width for width in widths])
    for row in grid:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"| {' | '.join(padded)} |"


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of ratios."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))
