"""Random schedules meet what only planned steps have, and often enough to find faults in it."""

from __future__ import annotations

from collections import Counter

from draftproof.fuzz.cases import seeded_case
from draftproof.properties.windows import limits
from draftproof.reference.vocabulary import Config
from draftproof.sim.journal import Fed

CASES = 150
"""Some five thousand steps."""


def moments(config: Config, fed: Fed) -> Counter[str]:
    """What a planned step is an example of."""
    batch, found = fed.batch, Counter[str]()
    if fed.look is None or batch.verify_budget is None or batch.verify_lens is None:
        return found
    real = sum(row.incarnation > 0 for row in batch.generations)
    own, padding = batch.verify_lens[:real], batch.verify_lens[real:]
    fewest, most = limits(config)
    granted = real * (1 + fewest) + min(batch.verify_budget, real * (most - fewest))
    found["stopped early"] = config.early_stopping and sum(own) < granted
    if batch.verify_bucket is not None:
        found["slack to padding"] = real > 0 and max(padding, default=1) > 1
        found["slack to some requests"] = sum(own) > granted and min(own) <= most
    return found


def test_planned_steps_stop_early_and_have_slack_to_give() -> None:
    """If this fails, a wrong rule about either lives for hundreds of cases."""
    seen = Counter[str]()
    for index in range(CASES):
        run = seeded_case(5, index)
        for entry in run.journal.entries:
            if isinstance(entry, Fed):
                seen += moments(run.config, entry)
    assert seen["stopped early"] >= 10
    assert seen["slack to padding"] >= 15
    assert seen["slack to some requests"] >= 4
