"""Whether everybody gets on: once the faults stop, every live request ends, within a bound."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.reference.vocabulary import Config
from draftproof.sim.divergence import Divergence
from draftproof.sim.engine import Engine
from draftproof.sim.events import AnyEvent, Cancel, Step
from draftproof.sim.rank_events import On, Together
from draftproof.sim.ranks import RankSimulation
from draftproof.sim.requests import Request
from draftproof.sim.run import MakeEngine, Simulation

SLACK = 4
"""Steps that nobody need get on in: a result that was lost is waited for, and then given up."""


LONG_PROMPT = 500
"""Positions of a prompt that are still to be computed."""


def most_steps(engine: Engine) -> int:
    """Steps within which everybody must be done: in each, somebody is woken or gets on by one."""
    return SLACK + sum(
        request.pause + (request.length - request.computed) + request.room
        for request in engine.everybody
    )


def long_ones(engine: Engine) -> list[int]:
    """Ordinals of requests that would get on for very long; they are cancelled, to save time."""
    return [
        request.ordinal
        for request in engine.everybody
        if request.length - request.computed > LONG_PROMPT
    ]


def check_live(config: Config, events: Sequence[AnyEvent], make_engine: MakeEngine = Engine) -> int:
    """Let a schedule end in steps without faults. Returns how many it took until all were done.

    Raises the Divergence of a request that is never done, or of engine or model if they break down
    in these steps. If they did so in the schedule, that is left to `check`.
    """
    simulation = Simulation(config, make_engine)
    for event in events:
        simulation.apply(event)
    simulation.settle()
    before = simulation.run.breakdown
    taken = drain(simulation)
    tell_breakdown(before, simulation.run.breakdown)
    return taken


def drain(simulation: Simulation) -> int:
    """The steps themselves, at the end of a simulation. They end early if it breaks down."""
    engine = simulation.engine
    simulation.settle()
    for ordinal in long_ones(engine):
        simulation.apply(Cancel(ordinal))
    most = most_steps(engine)
    for taken in range(most + 1):
        if simulation.run.breakdown is not None or not engine.everybody:
            return taken
        simulation.apply(Step())
        simulation.settle()
    raise stuck(engine.everybody[0], most, len(engine.everybody))


def drain_ranks(simulation: RankSimulation) -> int:
    """The same for all ranks, which only step together; what breaks down is told."""
    engines = simulation.engines
    for own in simulation.simulations:
        own.settle()
    before = simulation.world.breakdown
    for rank, engine in enumerate(engines):
        for ordinal in long_ones(engine):
            simulation.apply(On(rank, Cancel(ordinal)))
    most = max(map(most_steps, engines))
    for taken in range(most + 1):
        left = [request for engine in engines for request in engine.everybody]
        if simulation.world.breakdown is not None or not left:
            tell_breakdown(before, simulation.world.breakdown)
            return taken
        simulation.apply(Together())
        for own in simulation.simulations:
            own.settle()
    raise stuck(left[0], most, len(left))


def tell_breakdown(before: Divergence | None, now: Divergence | None) -> None:
    """Raise what broke down behind a schedule. Its event is none of the schedule's."""
    if before is None and now is not None:
        now.event, now.expected = None, f"{now.expected}, in steps behind the schedule too"
        raise now


def stuck(request: Request, steps: int, number: int) -> Divergence:
    """How a request is told that is never done."""
    where = "waits to be admitted" if request.seq_slot is None else "is admitted"
    told = Divergence(
        "liveness",
        "no progress",
        f"every request done within {steps} steps without faults",
        f"{number} never done; request {request.request_id} {where}, "
        f"with {len(request.output)} of {request.asked.limit} tokens",
    )
    told.request, told.incarnation = request.request_id, request.incarnation
    return told
