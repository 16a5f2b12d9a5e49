"""Disaggregated serving: prompts on one server, generation on another, a transfer in between.

A prompt that the context server has computed is transferred: what it left in the target's cache
arrives, late or only in part, or twice, or never. Whatever does not arrive the generation server
computes itself; the drafter's window it never gets (semantics, section 12).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from draftproof.reference.vocabulary import Config
from draftproof.sim.choices import Choices, Digits
from draftproof.sim.divergence import Divergence
from draftproof.sim.engine import Engine
from draftproof.sim.events import (
    Cancel,
    Count,
    Event,
    Pause,
    Recompute,
    Step,
    Submit,
    Warmup,
    choose_event,
)
from draftproof.sim.journal import Departed
from draftproof.sim.liveness import SLACK, most_steps, stuck
from draftproof.sim.run import MakeEngine, Run, Simulation

How = Literal["whole", "late", "partial", "repeated", "lost"]
HOW: tuple[How, ...] = ("whole", "late", "partial", "repeated", "lost")


class Transfer(Event, frozen=True, tag="transfer"):
    """How the transfer of a request will go; without one, whole and at once.

    late: `steps` steps of the generation server later; partial: the first `tokens` positions only;
    repeated: whole, and once more `steps` steps later; lost: given up after `steps` steps.
    """

    request: Count
    how: How = "whole"
    steps: Count = 0
    tokens: Count = 0


class OnServer(Event, frozen=True, tag="server"):
    """What happens on one of the servers."""

    server: Literal["context", "generation"]
    event: Step | Warmup | Pause | Recompute


ServerEvent = Submit | Cancel | Transfer | OnServer


@dataclass(frozen=True, slots=True)
class Arrival:
    """What the generation server is told of a request, in its step `due`; positions: how many of
    the prompt's positions came along."""

    due: int
    submit: Submit
    positions: int


@dataclass(slots=True)
class Servers:
    """What a schedule of both servers leads to.

    asked: the requests; sent: those whose prompt is done; arrived: everything that arrived, in
    order; cancelled: those whose client went away.
    """

    config: Config
    context: Run
    generation: Run
    asked: dict[int, Submit] = field(default_factory=dict)
    sent: list[int] = field(default_factory=list)
    arrived: list[Arrival] = field(default_factory=list)
    cancelled: set[int] = field(default_factory=set)


class Disaggregated:
    """Both servers, event by event."""

    def __init__(self, config: Config, make_engine: MakeEngine = Engine) -> None:
        self.context = Simulation(config)
        self.generation = Simulation(config, make_engine)
        self.config = self.context.config
        self.servers = Servers(self.config, self.context.run, self.generation.run)
        self.in_flight: list[Arrival] = []
        self._plans: dict[int, Transfer] = {}
        self._read = 0
        self._steps = 0

    def apply(self, event: ServerEvent) -> None:
        """Let one event happen; one that makes no sense is skipped."""
        if isinstance(event, Submit):
            self._submit(event)
        elif isinstance(event, Transfer):
            self._plans[event.request] = event
        elif isinstance(event, Cancel):
            self.servers.cancelled.add(event.request)
            self.in_flight = [one for one in self.in_flight if one.submit.request != event.request]
            self.context.apply(event)
            self.generation.apply(event)
        elif event.server == "context":
            self.context.apply(event.event)
            self._send()
        else:
            if isinstance(event.event, Step):
                self._receive()
                self._steps += 1
            self.generation.apply(event.event)

    def finish(self) -> Servers:
        """Deliver what is still under way."""
        self.context.finish()
        self.generation.finish()
        return self.servers

    def drain(self) -> int:
        """Step on without any disturbance until all is done; how many steps that took.

        Raises the Divergence of a request that is never done.
        """
        engines = self.context.engine, self.generation.engine
        most = SLACK + sum(most_steps(engine) for engine in engines)
        most += sum(asked.prompt + asked.limit for asked in self.servers.asked.values())
        most += max((one.due for one in self.in_flight), default=0)
        for taken in range(most + 1):
            left = [request for engine in engines for request in engine.everybody]
            if not left and not self.in_flight:
                return self._drained(taken)
            for server in ("context", "generation"):
                self.apply(OnServer(server, Step()))
            self.generation.engine.settle()
            if self.generation.run.breakdown is not None:
                return taken
        if left:
            raise stuck(left[0], most, len(left))
        raise Divergence("liveness", "no progress", "every transfer ends", "one is in flight")

    def _drained(self, steps: int) -> int:
        servers = self.servers
        arrived = {one.submit.request for one in servers.arrived} | servers.cancelled
        for ordinal in servers.sent:
            if ordinal not in arrived:
                told = f"request {ordinal} (by ordinal) was sent, and never heard of again"
                raise Divergence("liveness", "no progress", "every transfer ends", told)
        return steps

    def _submit(self, event: Submit) -> None:
        """The context server computes the prompt, and one token, by which it is done."""
        if event.request not in self.servers.asked:
            self.servers.asked[event.request] = event
            here = msgspec.structs.replace(event, limit=1, imported=False, reused=0)
            self.context.apply(here)

    def _send(self) -> None:
        """Begin the transfer of every prompt that is done."""
        self.context.engine.settle()
        entries = self.context.run.journal.entries
        done = [e for e in entries[self._read :] if isinstance(e, Departed)]
        self._read = len(entries)
        for entry in done:
            if entry.reason == "finished":
                asked = self.servers.asked[entry.incarnation - 1]
                self._transfer(asked, self._plans.get(asked.request, Transfer(asked.request)))

    def _transfer(self, asked: Submit, plan: Transfer) -> None:
        self.servers.sent.append(asked.request)
        now, later = self._steps, self._steps + plan.steps
        whole = msgspec.structs.replace(asked, imported=True, reused=0)
        if plan.how in ("whole", "repeated"):
            self.in_flight.append(Arrival(now, whole, asked.prompt))
        if plan.how in ("late", "repeated"):
            self.in_flight.append(Arrival(later, whole, asked.prompt))
        if plan.how == "partial":
            came = min(plan.tokens, asked.prompt - 1)
            part = msgspec.structs.replace(asked, imported=False, reused=came)
            self.in_flight.append(Arrival(now, part, came))
        if plan.how == "lost":
            anew = msgspec.structs.replace(asked, imported=False, reused=0)
            self.in_flight.append(Arrival(later, anew, 0))

    def _receive(self) -> None:
        """What is due by now reaches the generation server, in the order in which it was sent."""
        due = [one for one in self.in_flight if one.due <= self._steps]
        self.in_flight = [one for one in self.in_flight if one.due > self._steps]
        for one in due:
            if one.submit.request in self.servers.cancelled:
                told = f"request {one.submit.request} arrived"
                raise Divergence("invariant", "I13", "nobody who was cancelled", told)
            self.servers.arrived.append(one)
            self.generation.apply(one.submit)


def simulate_servers(
    config: Config, choices: Choices, events: int, make_engine: MakeEngine = Engine
) -> tuple[Disaggregated, list[ServerEvent]]:
    """Let choices make a schedule for both servers. It is not finished yet."""
    both = Disaggregated(config, make_engine)
    made: list[ServerEvent] = []
    for _ in range(events):
        for event in _choose(both, choices, len(both.servers.asked)):
            both.apply(event)
            made.append(event)
    return both, made


def _choose(both: Disaggregated, choices: Choices, submitted: int) -> Iterable[ServerEvent]:
    digits = Digits(choices)
    server: Literal["context", "generation"] = ("context", "generation")[digits.below(2)]
    simulation = both.context if server == "context" else both.generation
    event = choose_event(both.config, choices, simulation.engine.live, submitted)
    if isinstance(event, Submit) and server == "generation":
        yield OnServer(server, Step())  # it has nobody; requests come by the other one
    elif isinstance(event, Submit):
        short = 1 + event.prompt % (2 * both.config.window_size + 2)  # all of it is computed
        event = msgspec.structs.replace(event, prompt=short, imported=False, reused=0)
        yield event
        yield Transfer(
            event.request, HOW[digits.below(len(HOW))], digits.below(6), digits.below(event.prompt)
        )
    elif isinstance(event, Cancel):
        yield event
    else:
        yield OnServer(server, event)
