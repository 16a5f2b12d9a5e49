"""A schedule with planned steps, written by hand."""

from __future__ import annotations

from typing import Any

from draftproof.reference.vocabulary import Config
from draftproof.sim.events import AnyEvent, Step, Submit

START: tuple[AnyEvent, ...] = (
    Submit(0, prompt=5, limit=40, imported=True),
    Submit(1, prompt=9, limit=40, imported=True),
    Submit(2, prompt=2, limit=40, imported=True),
    Step(accepts=(1, 2)),
    Step(accepts=(2, 0)),
    Step(accepts=(1,)),
)
"""Three requests that decode, and three steps, so that snapshots of every age are ready."""


def scheduled(**changes: Any) -> Config:
    """A configuration of confidence scheduling: K = 5, at most four requests."""
    fields: dict[str, Any] = {"window_size": 8, "num_stages": 1, "max_num_requests": 4}
    return Config(5, confidence_scheduling=True, **{**fields, **changes})
