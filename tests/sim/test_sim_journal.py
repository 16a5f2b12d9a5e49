"""The journal: facts for the oracles that do not trust the engine."""

from batches import small
from schedules import BUSY, output, play

from draftproof.sim.events import Cancel, Recompute, Step, Submit, Warmup
from draftproof.sim.journal import (
    Answered,
    Asked,
    Delivered,
    Departed,
    Fed,
    Journal,
    Published,
    Restarted,
    Submitted,
)
from draftproof.sim.run import Simulation, replay
from draftproof.sim.statistics import Counts, Statistics


def test_the_journal_says_what_happened_in_the_order_in_which_it_did() -> None:
    """If this fails, an invariant is computed from something that did not happen, or not then."""
    first, second = Submit(0, prompt=2, limit=2), Submit(1, prompt=3, limit=9)
    events = (
        first,
        second,
        Step(chunk=2),
        Warmup(),
        Step(chunk=2),
        Recompute(1),
        Cancel(1),
        Step(fault="seed"),
    )
    run = play(small(), *events)
    chunk, warm, mixed, idle = run.steps
    token = output(run, 1)
    none = [0, 0, 0]  # a token of each prompt, and one behind, with placeholders for drafts
    each = {
        1: Counts(none, none, none, results=2, emitted=2),
        2: Counts(none, none, none, results=1, emitted=1),
    }
    all_of_it = Counts(none, none, none, results=3, emitted=3)
    assert run.journal.entries == [
        Asked(first),
        Submitted(1, 1, first),
        Asked(second),
        Submitted(2, 2, second),
        Asked(events[2]),
        Fed(chunk.batch, (2, 2)),
        Answered(chunk.result),
        Asked(events[3]),
        Fed(warm.batch, (None,)),
        Answered(warm.result),
        Asked(events[4]),
        Delivered(0, 1, 1, (token[0],), 3),
        Fed(mixed.batch, (3, 6)),
        Answered(mixed.result),
        Asked(events[5]),
        Delivered(2, 2, 2, (output(run, 2)[0],), 4),
        Delivered(2, 1, 1, (token[1],), 4),
        Departed(1, "finished"),
        Restarted(2),
        Asked(events[6]),
        Departed(2, "cancelled"),
        Asked(events[7]),
        Fed(idle.batch, (None,)),
        Answered(None),
        Published(Statistics(all_of_it, each)),
    ]


def test_every_step_says_how_long_the_journal_was_when_it_had_been_answered() -> None:
    """If this fails, a watch is shown a state together with facts from before or after it."""
    simulation = Simulation(small())
    for event in BUSY:
        before = list(simulation.run.journal.entries)
        expected = simulation.apply(event)
        entries = simulation.run.journal.entries
        assert entries[: len(before)] == before, "only ever appended to"
        if expected is not None:
            assert expected.entries == len(entries)
            assert entries[-1] == Answered(expected.result)
            assert entries[-2] == Fed(expected.batch, entries[-2].reserved)  # type: ignore[union-attr]  # it is a Fed
    assert len(simulation.finish().steps) == 6


def test_two_runs_of_a_schedule_write_the_same_journal() -> None:
    """If this fails, something besides configuration and events decides what happens."""
    first, again = replay(small(), BUSY), replay(small(), BUSY)
    assert first.journal == again.journal
    assert first.steps == again.steps


def test_a_journal_starts_empty_and_of_its_own() -> None:
    """If this fails, a run sees the facts of the run before it."""
    Journal().write(Departed(1, "finished"))
    assert Journal().entries == []
