"""A piece of a campaign: so many cases in a row. It comes out the same wherever it runs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from time import monotonic

import msgspec

from draftproof.fuzz.campaign.minimal import Element, elements
from draftproof.fuzz.cases import MakeCase, Subject, seeded_case
from draftproof.fuzz.coverage.observe import observe
from draftproof.fuzz.coverage.tally import Coverage
from draftproof.fuzz.driving.swarm import swarm_case
from draftproof.fuzz.driving.wide import widened
from draftproof.fuzz.failures import REPLAYS, examine
from draftproof.reference.vocabulary import ConfigError
from draftproof.sim.divergence import Divergence
from draftproof.sim.engine import Engine
from draftproof.sim.loading import load
from draftproof.sim.lockstep import MakeWorker
from draftproof.sim.run import MakeEngine, Run, replay
from draftproof.sim.traces import Trace, cut, decode, encode

CASES = 16
"""Cases of a chunk: about a second, so that handing it out costs nothing."""
MORE_EVERY = 20
"""One case in so many is run twice, and whether all its requests would end is checked as well."""
LIVENESS = "liveness"
PATIENCE = 60.0
"""Seconds for replaying and shrinking one failure."""


@widened
def mixed_case(seed: int, index: int, make_engine: MakeEngine = Engine) -> Run:
    """Uniform and swarm in turns: each finds some things sooner (`docs/drivers.md`)."""
    case = swarm_case if index % 2 else seeded_case
    return case(seed, index, make_engine)


DRIVERS: dict[str, MakeCase] = {
    "mixed": mixed_case,
    "uniform": seeded_case,
    "swarm": swarm_case,
}


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker process is given.

    number: chunks count from 0; first: index of the first case; traces: encoded, to be run instead
    of cases that a driver makes; shrink: the only trace fails and is to be made minimal.
    """

    number: int
    implementation: str
    first: int = 0
    options: tuple[tuple[str, str], ...] = ()
    device: str = "cpu"
    driver: str = "mixed"
    seed: int = 0
    step_timeout: float = 60.0
    traces: tuple[bytes, ...] = ()
    shrink: bool = False

    def cases(self) -> Iterator[tuple[int, Run]]:
        """Index and run of each."""
        if self.traces:
            for index, data in enumerate(self.traces):
                trace = decode(data, "a trace of the corpus")
                yield index, replay(trace.config, trace.alone)
            return
        for index in range(self.first, self.first + CASES):
            yield index, DRIVERS[self.driver](self.seed, index)


@dataclass(slots=True)
class Result:
    """What a worker process answers.

    interesting: encoded traces that brought something new within the chunk, in order, each with all
    that it covers; refused: configurations that the factory does not support, by its reason;
    lines: of a shrunk failure, for people.
    """

    number: int
    coverage: Coverage = field(default_factory=Coverage)
    interesting: list[tuple[bytes, frozenset[Element]]] = field(default_factory=list)
    failing: list[bytes] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    not_checked: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Callbacks:
    """What a chunk tells while it runs: each case, each step, each failing trace at once."""

    show: Callable[[Trace], None] = lambda trace: None
    beat: Callable[[], None] = lambda: None
    failed: Callable[[bytes], None] = lambda trace: None


@lru_cache(maxsize=1)
def _make(implementation: str, device: str, options: tuple[tuple[str, str], ...]) -> MakeWorker:
    make = load(implementation, device, dict(options))
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)  # there is a process for each core
    return make


def work(task: Task, tell: Callbacks | None = None) -> Result:
    """Run a chunk. Raises ImplementationError if there is nothing to run it on."""
    tell = tell or Callbacks()
    make = _make(task.implementation, task.device, task.options)
    subject = Subject(make, step_timeout=task.step_timeout, alive=tell.beat)
    result = Result(task.number)
    if task.shrink:
        _shrink(task, subject, tell, result)
        return result
    known: set[Element] = set()
    for index, run in task.cases():
        trace = _trace(task, run)
        tell.show(trace)
        judge = replace(subject, live=index % MORE_EVERY == 0)
        try:
            checked = judge.judge(run)
            if judge.live:
                subject.judge(run)
        except ConfigError as error:
            result.refused[str(error)] += 1
        except Divergence as divergence:
            result.failing.append(encode(_failing(judge, trace, divergence)))
            tell.failed(result.failing[-1])
        else:
            seen = observe(run, checked.steps)
            result.coverage.add(seen)
            result.not_checked |= checked.not_checked
            cover = elements(seen)
            if not cover <= known:
                known |= cover
                plain = Trace(config=trace.config, events=trace.events)
                result.interesting.append((encode(plain), cover))
    return result


def _trace(task: Task, run: Run) -> Trace:
    return Trace(
        config=run.config,
        events=tuple(run.events),
        implementation=task.implementation,
        options=dict(task.options),
        device=task.device,
    )


def _failing(subject: Subject, trace: Trace, divergence: Divergence) -> Trace:
    """The trace with its signature, without what came after the failure if that plays no part."""
    trace = msgspec.structs.replace(trace, failure=divergence.signature)
    if divergence.event is None:
        return trace
    head = cut(trace, trace.events[: divergence.event + 1])
    found = subject.failure(head)
    return head if found is not None and found.signature == trace.failure else trace


def _again(subject: Subject, trace: Trace) -> Divergence | None:
    """The failure that was found, which may come and go."""
    start = monotonic()
    for _ in range(REPLAYS):
        found = subject.failure(trace)
        if found is not None and found.signature == trace.failure:
            return found
        if monotonic() > start + PATIENCE / 2:
            break
    return None


def _shrink(task: Task, subject: Subject, tell: Callbacks, result: Result) -> None:
    trace = decode(task.traces[0], "a failing trace")
    tell.show(trace)
    subject = replace(subject, live=trace.failure is not None and trace.failure[0] == LIVENESS)
    divergence = _again(subject, trace)
    if divergence is None:
        assert trace.failure is not None
        oracle, name = trace.failure
        result.lines = [f"{'found by':<12} {oracle}: {name}"]
        result.lines.append(f"fails only now and then: in none of {REPLAYS} replays")
        return
    failure = examine(subject, trace, divergence, PATIENCE)
    result.failing = [encode(failure.trace)]
    result.lines = failure.lines(None)
