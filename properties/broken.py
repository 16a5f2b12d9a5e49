"""How a broken invariant is told."""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

from draftproof.sim.divergence import Divergence, Oracle


class OfRequest(Protocol):
    """A row of a batch, an entry of the journal, a life."""

    @property
    def request_id(self) -> int:
        """Under which id."""

    @property
    def incarnation(self) -> int:
        """Which life of it."""


def broken(
    invariant: str,
    expected: Any,
    found: Any,
    oracle: Oracle = "invariant",
    of: OfRequest | None = None,
    **where: Any,
) -> NoReturn:
    """Raise the Divergence of a broken invariant.

    of: whose request it is, if it is one's; `where` names further fields of the Divergence.
    """
    if of is not None:
        where |= {"request": of.request_id, "incarnation": of.incarnation}
    raise Divergence(oracle, invariant, expected, found, **where)
