"""The public bug reports, and which of them no planted defect stands for, and why not.

Facts alone: id, priority, group, whose software, invariants that it breaks, and where to read it.
P1 needs nothing but events; P2 a model of memory, graphs or transfers; P3 distributions.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from draftproof.fuzz.defects.catalogue import CATALOGUE, Defect
from draftproof.fuzz.ranks.defects import RANK_CATALOGUE, RankDefect

PLANTED: Mapping[str, Defect | RankDefect] = {**CATALOGUE, **RANK_CATALOGUE}
"""Every planted defect by its name."""


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One report; where: whose software, and which part of it."""

    id: str
    priority: str
    group: str
    where: str
    invariants: tuple[str, ...]
    url: str


NOT_COVERED = {
    "GRAM-7": "no grammar here begins in the middle of an output, behind a marker",
    "CTX-2": "that a request whose prompt ran elsewhere begins with an empty window is what is "
    "specified (section 12); that nothing else is visible is checked under POS-3",
    "CTX-7": "there is no prefix cache: how much of a prompt is reused is said by the event",
    "LEAK-3": "there is no context shift: no position ever becomes smaller",
    "ROLL-7": "the target's cache is not modelled, so it has no groups that are compressed",
    "STAT-1": "a draft is never dropped for being short: there is no least length",
    "PRE-5": "there are no pages that a transfer writes to; that nothing arrives for a request "
    "cancelled while it is transferred is checked, and planted, in tests/ranks",
    "RANK-1": "as RANK-3: no two ranks give a budget to the same drafts; that all replay one graph "
    "whatever their own budgets is checked under RANK-2",
    "RANK-3": "a request lives on one rank: none share a batch and what is decided in it",
    "RANK-14": "as RANK-3: no two ranks draw for the same request",
}
"""P1 reports that no planted defect stands for."""


@cache
def reports() -> tuple[Report, ...]:
    """All of them, in the order of the list."""
    path = Path(__file__).with_name("reports.json")
    return tuple(msgspec.json.decode(path.read_bytes(), type=list[Report]))


def defects_of(report: Report) -> list[Defect | RankDefect]:
    """The planted defects that stand for it."""
    return [defect for defect in PLANTED.values() if report.id in defect.reports]
