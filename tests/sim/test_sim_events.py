"""Events: what a schedule does."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from batches import small
from hypothesis import given
from hypothesis import strategies as st

from draftproof.reference.config import checked
from draftproof.reference.vocabulary import Config
from draftproof.sim.choices import Seeded
from draftproof.sim.configs import choose_config
from draftproof.sim.events import (
    FAULTS,
    AnyEvent,
    Cancel,
    Pause,
    Recompute,
    Step,
    Submit,
    Warmup,
    choose_event,
)
from draftproof.sim.journal import Fed, Submitted
from draftproof.sim.lockstep import check
from draftproof.sim.run import Run, replay, simulate

ORDINALS = st.integers(0, 4)
SMALL = st.integers(1, 4)
LENGTHS = st.none() | st.integers(0, 5)
PLACES = st.none() | st.sampled_from(FAULTS)
EVENTS: st.SearchStrategy[AnyEvent] = st.one_of(
    st.builds(
        Submit,
        request=ORDINALS,
        prompt=st.integers(1, 12),
        reused=st.integers(0, 12),
        imported=st.booleans(),
        same_id=st.booleans(),
        limit=st.integers(1, 9),
        stop=st.none() | st.integers(0, 2),
        sampled=st.booleans(),
        numbering=st.sampled_from(["small", "wide", "last"]),
    ),
    st.builds(
        Step,
        chunk=st.integers(0, 4),
        accepts=st.lists(st.integers(0, 5), max_size=3).map(tuple),
        draft_len=LENGTHS,
        rotate=st.integers(0, 5),
        graph=st.booleans(),
        windows=st.lists(SMALL, max_size=3).map(tuple),
        fault=PLACES,
    ),
    st.builds(Cancel, ORDINALS),
    st.builds(Pause, ORDINALS, SMALL),
    st.builds(Recompute, ORDINALS),
    st.builds(
        Warmup,
        rows=SMALL,
        context=st.booleans(),
        draft_len=LENGTHS,
        fault=PLACES,
        sampled=st.booleans(),
        capture=st.booleans(),
        live=st.booleans(),
    ),
)
"""Any event, whether or not the engine's own choices would make it, in any order."""


class Zeros:
    """Always the simplest choice."""

    def below(self, n: int) -> int:
        return 0


@st.composite
def configs(draw: st.DrawFn) -> Config:
    return choose_config(Seeded(draw(st.integers(0, 10**6))))


@given(config=configs(), events=st.lists(EVENTS, max_size=25))
def test_any_event_fits_any_state(config: Config, events: list[AnyEvent]) -> None:
    """If this fails, an event that makes no sense breaks the run instead of being skipped."""
    run = replay(config, events)
    assert run.breakdown is None, str(run.breakdown)
    check(run)
    assert run.events == events
    steps = [event for event in events if isinstance(event, Step | Warmup)]
    assert len(run.steps) == len(steps)


@st.composite
def rearranged(draw: st.DrawFn) -> tuple[Run, list[AnyEvent]]:
    """A run, and its events with some deleted, some twice, and some elsewhere."""
    choices = Seeded(draw(st.integers(0, 10**6)))
    run = simulate(choose_config(choices), choices, 30)
    indices = draw(st.lists(st.integers(0, 29), max_size=40))
    return run, [run.events[i] for i in indices]


@given(rearranged())
def test_events_run_in_any_order_and_number(given: tuple[Run, list[AnyEvent]]) -> None:
    """If this fails, what is left of a trace after an edit may not run."""
    run, events = given
    again = replay(run.config, events)
    assert again.breakdown is None, str(again.breakdown)
    assert again.events == events


def names(run: Run) -> dict[int, Submitted]:
    """What was submitted, by ordinal."""
    entries = run.journal.entries
    return {e.event.request: e for e in entries if isinstance(e, Submitted)}


@given(seed=st.integers(0, 10**6), kept=st.sets(st.integers(0, 29)))
def test_deleting_events_renames_nobody(seed: int, kept: set[int]) -> None:
    """If this fails, deleting an event changes what the others are about, and shrinking fails."""
    choices = Seeded(seed)
    run = simulate(choose_config(choices), choices, 30)
    shorter = replay(run.config, [event for i, event in enumerate(run.events) if i in kept])
    before, after = names(run), names(shorter)
    submits = {i for i, event in enumerate(run.events) if isinstance(event, Submit)}
    assert len(after) == len(submits & kept)
    for ordinal, entry in after.items():
        assert entry.event == before[ordinal].event
        assert entry.incarnation == before[ordinal].incarnation == ordinal + 1
        if not entry.event.same_id:
            assert entry.request_id == before[ordinal].request_id
            assert entry.request_id == ordinal + 1 or entry.event.numbering != "small"


def test_an_ordinal_names_one_request() -> None:
    """If this fails, a doubled Submit makes two requests with one name, and one id twice."""
    run = replay(small(), [Submit(0), Submit(0, prompt=5), Step(), Submit(0), Step()])
    assert run.breakdown is None
    assert len(names(run)) == 1
    (first, second) = (e.batch for e in run.journal.entries if isinstance(e, Fed))
    assert [(row.request_id, row.length) for row in first.contexts] == [(1, 1)]
    assert second.rows[0].request_id == 0  # idle: its only token was the limit


def test_index_0_is_the_simplest_choice() -> None:
    """If this fails, shrinking by smaller numbers makes schedules more complicated."""
    config = small(confidence_scheduling=True)
    assert choose_event(config, Zeros(), [], 5) == Submit(5)
    step = choose_event(config, Zeros(), [3], 5)
    assert step == Step(accepts=(0, 0, 0))
    simplest = choose_config(Zeros())
    assert (simplest.max_draft_len, simplest.window_size, simplest.num_stages) == (1, 1, 1)
    assert simplest.draft_len_schedule is None
    assert simplest.graph_batch_sizes == ()
    assert not simplest.poison
    assert not simplest.confidence_scheduling
    assert not simplest.use_rejection_sampling


def options(event: AnyEvent) -> list[str]:
    """Everything about an event that is not as it is by default, as kind.field."""
    kind = type(event).__name__
    fields = msgspec.structs.fields(event)
    return [kind] + [
        f"{kind}.{info.name}"
        for info in fields
        if not info.required and getattr(event, info.name) != info.default
    ]


def test_every_kind_and_every_option_is_chosen() -> None:
    """If this fails, part of what events can say is never tried."""
    seen = Counter[str]()
    for seed in range(40):
        choices = Seeded(seed)
        config = choose_config(choices)
        for _ in range(100):
            seen.update(options(choose_event(config, choices, [0, 1], 2)))
    kinds: tuple[type[AnyEvent], ...] = (Submit, Step, Cancel, Pause, Recompute, Warmup)
    everything = {kind.__name__ for kind in kinds} | {
        f"{kind.__name__}.{info.name}"
        for kind in kinds
        for info in msgspec.structs.fields(kind)
        if not info.required
    }
    assert everything - seen.keys() == set()
    assert 0.55 < seen["Step"] / 4000 < 0.7


def test_every_kind_of_configuration_is_chosen_and_valid() -> None:
    """If this fails, part of the configurations is never tried, or a case cannot start."""
    configs = [choose_config(Seeded(seed)) for seed in range(300)]
    assert all(checked(config).block_size == config.max_draft_len for config in configs)
    assert {config.max_draft_len for config in configs} == set(range(1, 8))
    assert {config.window_size for config in configs} == {*range(1, 13), 17, 65}
    kinds = Counter(
        (
            config.draft_len_schedule is not None,
            config.confidence_scheduling,
            config.use_rejection_sampling,
            config.target,
        )
        for config in configs
    )
    assert len(kinds) == 8
    assert min(kinds.values()) > 10
    shapes = [config.draft_len_schedule for config in configs if config.draft_len_schedule]
    lengths = [[length for _, length in schedule] for schedule in shapes]
    assert any(values != sorted(values, reverse=True) for values in lengths), "none rises again"
    assert any(0 in values for values in lengths)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "submit", "request": -1},
        {"type": "submit", "request": 0, "prompt": 0},
        {"type": "submit", "request": 0, "limit": 0},
        {"type": "submit", "request": 0, "prompt": 10**9},
        {"type": "step", "draft_len": -1},
        {"type": "step", "accepts": [-1]},
        {"type": "step", "windows": [0]},
        {"type": "step", "fault": "nowhere"},
        {"type": "pause", "request": 0, "steps": 0},
        {"type": "warmup", "rows": 0},
        {"type": "step", "unknown": 1},
        {"type": "stop"},
    ],
)
def test_an_event_that_nobody_could_mean_is_refused_when_read(event: dict[str, Any]) -> None:
    """If this fails, a damaged trace runs and says something about another schedule."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(event), type=AnyEvent)
