"""Once nothing is disturbed any more, every live request is done within a bound."""

from __future__ import annotations

from pathlib import Path

import pytest
from batches import small
from command import draftproof

from draftproof.fuzz.cases import seeded_case
from draftproof.fuzz.defects.engines.disturbed import LostWakeUp
from draftproof.reference.vocabulary import Batch, Config
from draftproof.sim.divergence import Divergence
from draftproof.sim.engine import Engine
from draftproof.sim.events import AnyEvent, Pause, Step, Submit
from draftproof.sim.liveness import check_live, drain, drain_ranks, most_steps
from draftproof.sim.rank_engine import RankEngine
from draftproof.sim.rank_events import On, Together
from draftproof.sim.ranks import RankSimulation
from draftproof.sim.run import MakeEngine, Simulation
from draftproof.sim.traces import Trace, save

LOST: tuple[AnyEvent, ...] = (
    Submit(0, prompt=2, limit=9),
    Submit(1, prompt=2, limit=9),
    Step(),
    Step(fault="result", kind="lost"),
)


def simulated(config: Config, *events: AnyEvent, make_engine: MakeEngine = Engine) -> Simulation:
    simulation = Simulation(config, make_engine)
    for event in events:
        simulation.apply(event)
    return simulation


def test_everybody_is_done_within_the_bound() -> None:
    """If this fails, a correct engine is accused, or the bound is one that nobody can miss."""
    events = (Submit(0, prompt=5, limit=7), Submit(1, prompt=2, limit=3), Pause(0, steps=4), Step())
    simulation = simulated(small(max_num_requests=1), *events)
    simulation.engine.settle()
    most = most_steps(simulation.engine)
    taken = drain(simulation)
    assert most / 2 < taken <= most
    assert simulation.engine.everybody == []


@pytest.mark.parametrize("index", range(40))
def test_any_schedule_can_be_ended(index: int) -> None:
    """If this fails, some schedule leaves a correct engine stuck, or the bound is too tight."""
    run = seeded_case(4, index)
    check_live(run.config, run.events)


class Ruined(Engine):
    """Raises where the last result is delivered."""

    def settle(self, launched: Batch | None = None) -> None:
        if launched is None and self.pending is not None:
            raise ValueError("nobody to deliver to")
        super().settle(launched)


def test_a_run_that_breaks_down_is_left_to_others() -> None:
    """If this fails, a mistake of the engine ends a campaign, and no trace of it is saved."""
    events = (Submit(0), Step(late=True))
    assert check_live(small(), events, Ruined) == 0
    told = simulated(small(), *events, make_engine=Ruined).finish().breakdown
    assert told is not None
    assert told.signature == ("exception", "ValueError")


LONG: tuple[AnyEvent, ...] = (Submit(0, prompt=2, limit=40), Step())


class Tires(Engine):
    """Cannot build its sixth batch."""

    built = 0

    def handle(self, event: AnyEvent) -> Batch | None:
        self.built += isinstance(event, Step)
        if self.built == 6:
            raise ZeroDivisionError("tired")
        return super().handle(event)


def test_what_breaks_down_behind_the_schedule_is_told() -> None:
    """If this fails, an engine that cannot serve its last steps counts as one that gets on."""
    with pytest.raises(Divergence) as info:
        check_live(small(), LONG, Tires)
    told = info.value
    assert (told.signature, told.exit_code) == (("exception", "ZeroDivisionError"), 1)
    assert told.expected == "engine and model go on, in steps behind the schedule too"
    assert (told.found, told.event) == ("tired", None)
    assert simulated(small(), *LONG, make_engine=Tires).finish().breakdown is None


class RankTires(RankEngine, Tires):
    pass


def test_so_is_what_breaks_down_on_a_rank() -> None:
    """If this fails, the same of ranks."""
    simulation = RankSimulation(small(), 2, RankTires)
    for event in (On(1, LONG[0]), Together()):
        simulation.apply(event)
    with pytest.raises(Divergence) as info:
        drain_ranks(simulation)
    assert info.value.signature == ("exception", "ZeroDivisionError")


def test_a_lost_wake_up_is_told_by_name() -> None:
    """If this fails, a request can wait for ever, and nobody says which."""
    with pytest.raises(Divergence) as info:
        check_live(small(), LOST, LostWakeUp)
    told = info.value
    assert (told.signature, told.exit_code) == (("liveness", "no progress"), 7)
    assert told.request == 1
    assert "2 never done; request 1 is admitted, with 1 of 9 tokens" in str(told)
    assert check_live(small(), LOST) > 0


class NeverAdmits(Engine):
    def _admit(self) -> None: ...


def test_a_request_that_is_never_admitted_is_told_too() -> None:
    """If this fails, only admitted requests are waited for."""
    with pytest.raises(Divergence, match=r"1 never done; request 1 waits to be admitted"):
        check_live(small(), [Submit(0)], NeverAdmits)


def test_a_lost_wake_up_ends_the_command_with_exit_code_7(tmp_path: Path) -> None:
    """If this fails, scripts cannot tell a request that is never done from a wrong result."""
    path = tmp_path / "lost.jsonl"
    save(Trace(config=small(), events=LOST, engine_defect="lost-wake-up"), path)
    done = draftproof("replay", path, cwd=tmp_path)
    assert done.returncode == 7
    assert "request 1 is admitted" in done.stdout
