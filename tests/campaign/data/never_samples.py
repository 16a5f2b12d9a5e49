"""The command line with a blind spot: its driver `uniform` never makes a sampled request."""

from __future__ import annotations

import sys

from msgspec import structs

from draftproof.fuzz.campaign.chunks import DRIVERS, mixed_case
from draftproof.fuzz.cli import main
from draftproof.sim.engine import Engine
from draftproof.sim.events import AnyEvent, Submit
from draftproof.sim.run import MakeEngine, Run, replay


def greedy_case(seed: int, index: int, make_engine: MakeEngine = Engine) -> Run:
    """A case of the sound driver in which everybody is greedy."""
    run = mixed_case(seed, index, make_engine)
    return replay(run.config, [greedy(event) for event in run.events], make_engine)


def greedy(event: AnyEvent) -> AnyEvent:
    """A Submit that is not sampled, any other event as it is."""
    return structs.replace(event, sampled=False) if isinstance(event, Submit) else event


if __name__ in ("__main__", "__mp_main__"):  # the second one: in worker processes
    DRIVERS["uniform"] = greedy_case

if __name__ == "__main__":
    sys.exit(main())
