"""The yardstick: a `RuleBasedStateMachine` as most people would write it for this job.

One rule per kind of event, parameters drawn by Hypothesis's own strategies, preconditions for what
needs a request, an invariant that compares the whole state after each step. Events, their weights
and the oracles are those of the campaigns, so that only the way of driving differs.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from draftproof.fuzz.cases import EVENTS_PER_CASE, Subject, watches
from draftproof.properties.strategies import HypothesisChoices
from draftproof.reference.vocabulary import Config, WorkerState
from draftproof.sim.configs import choose_config
from draftproof.sim.events import (
    FAR,
    KINDS,
    AnyEvent,
    Cancel,
    Pause,
    Recompute,
    Step,
    Submit,
    Warmup,
)
from draftproof.sim.faults import PLACES, Faults, Kind, kinds_at
from draftproof.sim.guide import lend
from draftproof.sim.lockstep import Checked, Side
from draftproof.sim.run import Expected, Simulation

MOST_DRAFTS = 7
"""The longest block that `choose_config` makes; engines cut what is too long."""

ORIGINS = ("new", "new", "new", "half", "half", "imported", "imported", "whole")

picks = st.integers(0, 59)
draft_lens = st.one_of(st.none(), st.just(0), st.integers(0, MOST_DRAFTS))


def faults(one_in: int) -> st.SearchStrategy[tuple[str | None, Kind]]:
    """What is to fail and how, rarely."""
    return st.integers(0, one_in * len(PLACES) - 1).flatmap(
        lambda n: (
            st.sampled_from([(PLACES[n], kind) for kind in kinds_at(PLACES[n])])
            if n < len(PLACES)
            else st.just((None, "exception"))
        )
    )


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """Configurations as the campaigns have them."""
    return choose_config(HypothesisChoices(draw))


class ScheduleMachine(RuleBasedStateMachine):
    """Makes events, and remembers who is there; nothing else happens."""

    events: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.live: list[int] = []
        self.submitted = 0

    @initialize(config=configs())
    def begin(self, config: Config) -> None:
        self.config = config

    def happen(self, event: AnyEvent) -> None:
        """An event; here only the list of requests is kept."""
        ScheduleMachine.events += 1
        if isinstance(event, Submit):
            self.live.append(event.request)
        elif isinstance(event, Cancel):
            self.live.remove(event.request)

    @rule(
        length=st.integers(0, 131),
        wide=st.booleans(),
        limit=st.integers(1, 40),
        origin=st.sampled_from(ORIGINS),
        far=st.sampled_from(FAR),
        same_id=st.booleans(),
        stops=st.sampled_from([False, True, False]),
        sampled=st.booleans(),
        numbering=st.sampled_from(["small", "small", "wide", "last"]),
        grammar=st.integers(0, 4),
        penalties=st.integers(0, 4),
    )
    def submit(
        self,
        length: int,
        wide: bool,
        limit: int,
        origin: str,
        far: int,
        same_id: bool,
        stops: bool,
        sampled: bool,
        numbering: Literal["small", "wide", "last"],
        grammar: int,
        penalties: int,
    ) -> None:
        window = self.config.window_size
        prompt = 1 + length % (2 * (window if wide else min(window, 12)) + 2)
        reused = {"half": prompt // 2, "whole": prompt}.get(origin, 0)
        if not reused and origin != "imported":
            far = 0
        self.happen(
            Submit(
                self.submitted,
                prompt=far + prompt,
                reused=far + reused if reused else 0,
                imported=origin == "imported",
                same_id=same_id,
                limit=limit,
                stop=self.config.vocab_size // 2 if stops else None,
                sampled=sampled and self.config.target == "scripted",
                numbering=numbering,
                grammar=grammar if self.config.target_logits else 0,
                penalties=penalties if self.config.target_logits else 0,
            )
        )
        self.submitted += 1

    @precondition(lambda self: self.live)
    @rule(
        accepts=st.tuples(*[st.integers(0, MOST_DRAFTS)] * 3),
        draft_len=draft_lens,
        chunk=st.sampled_from([0, 0, 0, 1, 3, None]),
        rotate=st.integers(0, 2),
        graph=st.booleans(),
        fault=faults(60),
        windows=st.one_of(st.just(()), st.tuples(*[st.integers(1, MOST_DRAFTS + 1)] * 2)),
        unread=st.sampled_from([False, False, False, True]),
        late=st.sampled_from([False, False, True]),
        age=st.sampled_from([None, 1, 1, 2, 0]),
        budget=st.integers(0, 2 * MOST_DRAFTS),
        broken=st.sampled_from([*[False] * 7, True]),
    )
    def step(
        self,
        accepts: tuple[int, ...],
        draft_len: int | None,
        chunk: int | None,
        rotate: int,
        graph: bool,
        fault: tuple[str | None, Kind],
        windows: tuple[int, ...],
        unread: bool,
        late: bool,
        age: int | None,
        budget: int,
        broken: bool,
    ) -> None:
        ragged = self.config.confidence_scheduling
        self.happen(
            Step(
                accepts=accepts,
                draft_len=None if ragged else draft_len,
                chunk=self.config.window_size if chunk is None else chunk,
                rotate=rotate,
                graph=graph,
                fault=fault[0],
                kind=fault[1],
                windows=windows if ragged and age is None else (),
                unread=unread,
                late=late,
                age=age if ragged else None,
                budget=budget if ragged and age is not None else 0,
                broken=broken and ragged and age is not None,
            )
        )

    @precondition(lambda self: self.live)
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        self.happen(Cancel(self._picked(pick)))

    @precondition(lambda self: self.live)
    @rule(pick=picks, steps=st.integers(1, 3))
    def pause(self, pick: int, steps: int) -> None:
        self.happen(Pause(self._picked(pick), steps=steps))

    @precondition(lambda self: self.live)
    @rule(pick=picks)
    def recompute(self, pick: int) -> None:
        self.happen(Recompute(self._picked(pick)))

    @precondition(lambda self: self.live)
    @rule(
        rows=st.integers(1, 17),
        context=st.booleans(),
        draft_len=draft_lens,
        fault=faults(4),
        sampled=st.booleans(),
        capture=st.booleans(),
        live=st.booleans(),
        ragged=st.booleans(),
    )
    def warmup(self, ragged: bool, fault: tuple[str | None, Kind], **fields: Any) -> None:
        ragged = ragged and bool(self.config.verify_buckets)
        self.happen(Warmup(ragged=ragged, fault=fault[0], kind=fault[1], **fields))

    def _picked(self, pick: int) -> int:
        return self.live[pick % len(self.live)]


for _kind in dict.fromkeys(KINDS):  # rules are picked evenly: one stands there once per weight
    _rule = getattr(ScheduleMachine, _kind.__name__.lower())
    for _copy in range(1, KINDS.count(_kind)):
        setattr(ScheduleMachine, f"{_rule.__name__}_{_copy}", _rule)


class LockstepMachine(ScheduleMachine):
    """Drives engine and model, and the implementation beside them."""

    subject: ClassVar[Subject]
    forwards: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.expected: Expected | None = None
        self.seen = 0
        self.side: Side | None = None

    @initialize(config=configs())
    def begin(self, config: Config) -> None:
        self.config = config
        self.simulation = Simulation(config, self.subject.make_engine)
        self.watches = watches(config)
        if self.subject.make is not None:
            faults = Faults()
            worker = self.subject.make(config, lend(config, faults.at))
            self.side = Side(worker, config, faults, Checked(), 0.0)

    def happen(self, event: AnyEvent) -> None:
        self.expected = self.simulation.apply(event)
        self.live = self.simulation.engine.live
        if self.simulation.run.breakdown is not None:
            raise self.simulation.run.breakdown

    @invariant()
    def all_is_well(self) -> None:
        expected, self.expected = self.expected, None
        if expected is not None:
            LockstepMachine.forwards += 1
            self._watch(expected.entries, expected.state)
            if self.side is not None and not self.side.step(expected):
                raise AssertionError("the worker lacks a seam")

    def _watch(self, end: int, state: WorkerState | None) -> None:
        entries = self.simulation.run.journal.entries[self.seen : end]
        for watch in self.watches:
            watch.step(entries, state)
        self.seen = end

    def teardown(self) -> None:
        if self.expected is None and not self._initialize_rules_to_run:  # nothing has failed
            entries = self.simulation.finish().journal.entries
            self._watch(len(entries), None)


def drive(machine: type[ScheduleMachine], number: int, examples: int) -> None:
    """Run so many examples of a machine without shrinking. Raises what an example raises."""
    run_state_machine_as_test(seed(number)(machine), settings=plain_settings(examples))


def plain_settings(examples: int) -> settings:
    """Nothing but examples: no database, no shrinking, no complaints about slowness."""
    return settings(
        max_examples=examples,
        stateful_step_count=1 + EVENTS_PER_CASE,  # choosing the configuration counts as one
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=False,
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
