"""Shrinking: a failing trace becomes minimal and keeps its kind of failure."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from batches import small
from hypothesis import given
from hypothesis import strategies as st
from spoilers import plain

from draftproof.fuzz.cases import Subject, seeded_case
from draftproof.fuzz.failures import Failure, examine
from draftproof.fuzz.shrink import shrink
from draftproof.reference.config import checked
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Batch, Config, StepResult, WorkerState
from draftproof.sim.divergence import Divergence
from draftproof.sim.events import AnyEvent, Cancel, Pause, Recompute, Step, Submit, Warmup
from draftproof.sim.rank_events import EveryEvent, On, Together
from draftproof.sim.run import replay
from draftproof.sim.traces import Trace, cut

BIG = checked(
    small(
        num_stages=3,
        draft_len_schedule=((1, 3), (2, 0), (3, 2)),
        max_num_tokens=50,
        graph_batch_sizes=(2,),
        poison=True,
    )
)
NOISE: tuple[AnyEvent, ...] = (Submit(7, prompt=9, limit=30), Step(accepts=(1, 2, 3)), Pause(7, 3))


def minimal(fails: Callable[[Trace], bool], *events: AnyEvent, config: Config = BIG) -> Trace:
    trace = Trace(config, events, implementation="kept", failure=("kept", "too"))
    assert fails(trace)
    shrunk = shrink(trace, fails)
    assert fails(shrunk)
    assert (shrunk.implementation, shrunk.failure) == ("kept", ("kept", "too"))
    return shrunk


def kinds(trace: Trace) -> list[type[AnyEvent]]:
    return [type(event) for event in trace.alone]


@given(needed=st.sets(st.integers(0, 29)))
def test_exactly_the_needed_events_remain_in_their_order(needed: set[int]) -> None:
    """If this fails, shrunk traces hold events that the failure does not need."""

    def fails(trace: Trace) -> bool:
        return needed <= {event.request for event in trace.events if isinstance(event, Cancel)}

    shrunk = minimal(fails, *[Cancel(i) for i in range(30)])
    assert list(shrunk.events) == [Cancel(i) for i in sorted(needed)]


def test_fields_go_to_their_defaults_and_numbers_down() -> None:
    """If this fails, shrunk events say more than the failure needs."""

    def fails(trace: Trace) -> bool:
        steps = [event for event in trace.events if isinstance(event, Step)]
        submits = [event for event in trace.events if isinstance(event, Submit)]
        return any(sum(step.accepts) >= 5 for step in steps) and any(
            submit.prompt >= 6 and submit.stop is not None for submit in submits
        )

    shrunk = minimal(
        fails,
        Submit(3, prompt=17, reused=8, same_id=True, limit=40, stop=21, sampled=True),
        Step(accepts=(3, 3, 3), chunk=2, rotate=2, graph=True, draft_len=3, windows=(2, 3)),
    )
    submit, step = shrunk.events
    assert submit == Submit(0, prompt=6, stop=1)
    assert isinstance(step, Step)
    assert step == Step(accepts=step.accepts)
    assert sum(step.accepts) == 5
    assert len(step.accepts) <= 2 or 0 in step.accepts


def test_a_simpler_event_may_make_another_one_needless() -> None:
    """If this fails, deleting one event of a shrunk trace may leave the failure as it was."""

    def fails(trace: Trace) -> bool:
        whole = [event for event in trace.events if isinstance(event, Step) and not event.chunk]
        chunked = [event for event in trace.events if isinstance(event, Step) and event.chunk]
        return bool(whole) or bool(chunked and Recompute in kinds(trace))

    assert minimal(fails, Step(chunk=3), Recompute(0)).events == (Step(),)


def test_numbers_stay_within_what_a_file_may_say() -> None:
    """If this fails, a shrunk trace cannot be loaded again."""

    def fails(trace: Trace) -> bool:
        return kinds(trace) == [Warmup, Pause, Step]

    shrunk = minimal(
        fails, Warmup(rows=3, draft_len=2, fault="seed"), Pause(0, 4), Step(windows=(2, 2))
    )
    assert shrunk.events == (Warmup(), Pause(0), Step())


def test_requests_are_dropped_merged_and_counted_from_0() -> None:
    """If this fails, a report tells of more requests than the failure needs, or skips numbers."""

    def fails(trace: Trace) -> bool:
        cancelled = {event.request for event in trace.events if isinstance(event, Cancel)}
        paused = {event.request for event in trace.events if isinstance(event, Pause)}
        return bool(cancelled) and bool(paused)

    events: list[AnyEvent] = [Submit(3), Submit(5), Cancel(5), Submit(9)]
    events += [Recompute(9), Pause(3), Cancel(9)]
    assert minimal(fails, *events).events == (Pause(0), Cancel(0))


def test_a_fault_becomes_a_simpler_one() -> None:
    """If this fails, a report blames a late seam for what any fault does."""

    def fails(trace: Trace) -> bool:
        return any(isinstance(event, Step) and event.fault for event in trace.events)

    assert minimal(fails, Step(fault="publish", kind="double")).events == (Step(fault="target"),)


def test_on_ranks_requests_become_as_few_and_as_plain_as_without() -> None:
    """If this fails, a report about ranks tells of requests, numbers and ranks that play no part.

    Requests of two ranks are never merged, though their numbers are the same.
    """

    def fails(trace: Trace) -> bool:
        events = [event for event in trace.events if isinstance(event, On)]
        asked = [event for event in events if event.rank < trace.ranks]
        submits = [(one.rank, one.event) for one in asked if isinstance(one.event, Submit)]
        cancels = {(one.rank, one.event.request) for one in asked if isinstance(one.event, Cancel)}
        long = [(rank, one.request) for rank, one in submits if one.prompt >= 6]
        return bool(cancels.intersection(long)) and len({rank for rank, _ in submits}) > 1

    events: list[EveryEvent] = [
        On(1, Submit(4, prompt=250, reused=100, limit=30, numbering="wide")),
        On(2, Submit(4, prompt=8, limit=30)),
        On(1, Submit(5, prompt=3, sampled=True)),
        Together((Step(), Step(draft_len=1))),
        On(1, Cancel(4)),
    ]
    trace = msgspec.structs.replace(Trace(BIG, tuple(events)), ranks=3)
    assert fails(trace)
    shrunk = shrink(trace, fails)
    assert shrunk.events == (
        On(0, Submit(0, prompt=6)),
        On(1, Submit(0)),
        On(0, Cancel(0)),
    )
    assert shrunk.ranks == 2


def test_the_configuration_becomes_as_plain_and_small_as_the_failure_allows() -> None:
    """If this fails, a report is about a configuration more complicated than its failure."""

    def fails(trace: Trace) -> bool:
        config = checked(trace.config)
        return config.window_size >= 5 and config.max_draft_len >= 2

    shrunk = minimal(fails, Step())
    assert shrunk.config == Config(
        max_draft_len=2,
        block_size=2,
        window_size=5,
        num_stages=1,
        max_num_requests=1,
        vocab_size=2,
    )
    assert shrunk.events == ()


def test_a_schedule_loses_the_thresholds_that_do_not_matter() -> None:
    """If this fails, a report names a schedule with entries that play no part."""

    def fails(trace: Trace) -> bool:
        return (2, 0) in (trace.config.draft_len_schedule or ())

    shrunk = minimal(fails, Step())
    assert shrunk.config.draft_len_schedule == ((1, shrunk.config.max_draft_len), (2, 0))
    assert shrunk.config.max_draft_len == 1


# ---- with a worker in which something is planted -------------------------------------------------


class Slips(Model):
    """Counts one forward too many once a request had drafts and then a step without any."""

    had_drafts = False

    def forward(self, batch: Batch) -> StepResult:
        answer = super().forward(batch)
        real = any(row.incarnation for row in batch.generations) and batch.mode != "warmup"
        if real and not batch.draft_len and self.had_drafts:
            self.draft_seq += 1
        self.had_drafts |= real and batch.draft_len > 0
        return answer


class TwoFaults(Slips):
    """Slips, but only in mixed batches; in any other batch without drafts it raises."""

    def forward(self, batch: Batch) -> StepResult:
        if batch.draft_len == 0 and batch.generations and not batch.contexts and self.had_drafts:
            raise ValueError("another failure")
        return super().forward(batch)


def failing(subject: Subject, seed: int) -> tuple[Trace, Divergence]:
    """The first failing case of a campaign."""
    for index in range(1000):
        run = seeded_case(seed, index)
        trace = Trace(run.config, tuple(run.events))
        if (found := subject.failure(trace)) is not None:
            return trace, found
    raise AssertionError("nothing fails in 1000 cases")


def shrunk_case(subject: Subject, seed: int) -> Failure:
    return examine(subject, *failing(subject, seed))


def fails_alike(subject: Subject, trace: Trace, signature: tuple[str, str]) -> bool:
    found = subject.failure(trace)
    return found is not None and found.signature == signature


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [Slips, TwoFaults])
def test_deleting_any_one_event_makes_the_failure_vanish(make: type[Model], seed: int) -> None:
    """If this fails, a report shows events that have nothing to do with the failure."""
    subject = Subject(make)
    failure = shrunk_case(subject, seed)
    signature = failure.divergence.signature
    assert failure.trace.failure == signature
    assert fails_alike(subject, failure.trace, signature)
    events = failure.trace.events
    for i in range(len(events)):
        shorter = cut(failure.trace, events[:i] + events[i + 1 :])
        assert not fails_alike(subject, shorter, signature)
    assert len(events) <= 6


def test_the_smallest_trace_is_found_exactly() -> None:
    """If this fails, shrinking got worse: three events and the smallest sizes are enough."""
    failure = shrunk_case(Subject(Slips), 0)
    assert failure.trace.events == (
        Submit(0, imported=True, limit=1),
        Step(),
        Step(draft_len=0, late=True),
    )
    assert failure.trace.config == Config(1, 1, 1, 1, vocab_size=2, block_size=1)
    assert failure.divergence.signature == ("comparison", "draft_seq")
    assert (failure.divergence.step, failure.divergence.event) == (1, 2)
    assert failure.events_before == 40


def test_shrinking_keeps_the_kind_of_failure_although_another_is_easier_to_reach() -> None:
    """If this fails, shrinking slips to another failure, and the one that was found is lost."""
    subject = Subject(TwoFaults)
    events = (
        *NOISE,
        Submit(0, prompt=2, limit=30, imported=True),
        Step(),
        Submit(1, prompt=4, limit=30),
        Step(draft_len=0, accepts=(1, 1, 1)),
        Step(draft_len=0),
    )
    trace = Trace(checked(small(num_stages=2)), events)
    found = subject.failure(trace)
    assert found is not None
    assert found.signature == ("comparison", "draft_seq")
    without = subject.failure(cut(trace, [e for e in events if e != events[5]]))
    assert without is not None
    assert without.signature == ("exception", "ValueError"), "the easier one is one deletion away"
    shrunk = examine(subject, trace, found)
    assert shrunk.divergence.signature == found.signature
    mixed = replay(shrunk.trace.config, shrunk.trace.alone).steps[-1].batch
    assert mixed.contexts
    assert mixed.generations


def test_a_case_is_cut_behind_its_failure_before_anything_else() -> None:
    """If this fails, shrinking wastes its time on events that come after the failure."""
    tried: list[int] = []

    class Counting(Slips):
        def state(self) -> WorkerState:
            return plain(super().state())

    subject = Subject(Counting)
    trace, found = failing(subject, 1)
    assert found.event is not None

    class Told(Subject):
        def failure(self, trace: Trace) -> Divergence | None:
            tried.append(len(trace.events))
            return super().failure(trace)

    examine(Told(Counting), trace, found)
    assert tried[:10] == [40] * 10
    assert tried[10] == found.event + 1
    assert max(tried[11:]) <= found.event + 1
