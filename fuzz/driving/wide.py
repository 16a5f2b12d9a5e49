"""Cases with one size that is larger than those of all others, as deployments have them.

Code changes its ways at such sizes: blocks that no longer fit a tile, the second word of a mask,
the 33rd request, a window of 128, positions behind a table's end.
"""

from __future__ import annotations

from msgspec.structs import replace

from draftproof.fuzz.cases import EVENTS_PER_CASE, MakeCase
from draftproof.sim.choices import Seeded
from draftproof.sim.configs import Ranges, choose_config
from draftproof.sim.engine import Engine
from draftproof.sim.events import AnyEvent, Submit
from draftproof.sim.run import MakeEngine, Run, replay, simulate

WIDE = {
    "block": Ranges(block=(9, 12, 15)),
    "requests": Ranges(requests=(33, 40), graphs=((), (8, 40), (1, 33))),
    "window": Ranges(window=(128,)),
    "stages": Ranges(stages=(7,)),
    "sampled": Ranges(sampled=(300,), about=("sampled",)),
    "guided": Ranges(guided=(300,), about=("guided",)),
    "position": Ranges(about=("forced", "schedule", "ragged", "sampled")),
}
"""By what is large. Of positions it is the schedule; with target logits a worker would be told the
whole prompt."""
FURTHER = 1 << 17
"""How much further prompts begin that do not run here, where positions are what is large."""
WIDE_EVERY, BEHIND = 16, 7
"""One case in so many of a campaign is wide, and which."""


def wide_case(seed: int, index: int, make_engine: MakeEngine = Engine) -> Run:
    """Case `index`; what is large goes round."""
    name = tuple(WIDE)[index % len(WIDE)]
    choices = Seeded(seed * 1_000_000 + index)
    config = choose_config(choices, WIDE[name])
    events = EVENTS_PER_CASE * (5 if name == "requests" else 1)  # until so many are there
    run = simulate(config, choices, events, make_engine)
    return run if name != "position" else replay(config, map(_further, run.events), make_engine)


def widened(case: MakeCase) -> MakeCase:
    """The same driver, but some of its cases give way to wide ones."""

    def widened_case(seed: int, index: int, make_engine: MakeEngine = Engine) -> Run:
        turn, place = divmod(index, WIDE_EVERY)
        if place == BEHIND:
            return wide_case(seed, turn, make_engine)
        return case(seed, index, make_engine)

    return widened_case


def _further(event: AnyEvent) -> AnyEvent:
    if not isinstance(event, Submit) or not (event.reused or event.imported):
        return event
    reused = event.reused and event.reused + FURTHER
    return replace(event, prompt=event.prompt + FURTHER, reused=reused)
