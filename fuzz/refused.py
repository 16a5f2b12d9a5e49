"""Configurations that a factory does not support: it may refuse some, but not all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from draftproof.reference.vocabulary import ConfigError
from draftproof.sim.errors import ImplementationError

MOST_REFUSED = 100
"""Configurations that a factory may refuse before it has accepted one."""


def refuse(refused: Counter[str], error: ConfigError, accepted: int) -> None:
    """Count a refusal by its reason. Raises ImplementationError if there are nothing but those."""
    refused[str(error)] += 1
    if not accepted and refused.total() == MOST_REFUSED:
        raise ImplementationError(
            f"the factory refused each of {MOST_REFUSED} configurations, the last with: {error}"
        )


def refusals(refused: Counter[str]) -> Iterator[str]:
    """A line of the report for each reason."""
    for reason, count in refused.most_common():
        yield f"                 {count:,} cases that the factory refused: {reason}"
