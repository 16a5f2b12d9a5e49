"""How a broken invariant is told."""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

from draftproof.sim.divergence import Divergence, Oracle


def broken(
    invariant: str, expected: Any, found: Any, oracle: Oracle = "invariant", **where: Any
) -> NoReturn:
    """Raise the Divergence of a broken invariant; `where` names fields of it."""
    raise Divergence(oracle, invariant, expected, found, **where)


class OfRequest(Protocol):
    """A row of a batch, an entry of the journal, a life."""

    @property
    def request_id(self) -> int:
        """Under which id."""

    @property
    def incarnation(self) -> int:
        """Which life of it."""


def whose(one: OfRequest) -> dict[str, Any]:
    """Which request something belongs to, as fields of a Divergence."""
    return {"request": one.request_id, "incarnation": one.incarnation}
