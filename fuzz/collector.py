"""Keeps Python's garbage collector from looking at the same things again and again."""

from __future__ import annotations

import gc

OBJECTS = 20_000
"""New objects between collections: a few cases' worth. Python's own 700 is less than a step's."""


def calm_collector() -> None:
    """To be called once everything is imported; what is there by now is never looked at again.

    Without it a campaign spends a tenth of its time on torch's modules and on its own live runs.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS)
