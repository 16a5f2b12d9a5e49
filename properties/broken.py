"""How a broken invariant is told."""

from __future__ import annotations

from typing import Any, NoReturn

from draftproof.reference.vocabulary import ContextRow, GenerationRow
from draftproof.sim.divergence import Divergence


def broken(
    invariant: str, expected: Any, found: Any, oracle: str = "invariant", **where: Any
) -> NoReturn:
    """Raise the Divergence of a broken invariant; `where` names fields of it."""
    raise Divergence(oracle, invariant, expected, found, **where)


def whose(row: ContextRow | GenerationRow) -> dict[str, Any]:
    """Which request a row belongs to, as fields of a Divergence."""
    return {"request": row.request_id, "incarnation": row.incarnation}
