"""When an engine waits for a result, by hand."""

from batches import small

from draftproof.sim.events import Step, Submit, Warmup
from draftproof.sim.run import Simulation
from draftproof.sim.warmups import WARMUP_ID


def test_a_result_is_awaited_if_it_is_for_anybody() -> None:
    """If this fails, results that are read late are not read again, or those of nobody are."""
    simulation = Simulation(small(graph_batch_sizes=(3,)))
    found = []
    for event in (Step(), Submit(0, prompt=2, limit=9), Step(), Step(graph=True), Warmup(rows=1)):
        simulation.apply(event)
        found.append(simulation.engine.awaits)
    padded = simulation.run.steps[2].batch
    assert [row.incarnation for row in padded.generations] == [1, 0, 0]
    assert found == [False, False, True, True, True]
    simulation.finish()
    assert not simulation.engine.awaits


def test_a_step_that_says_nothing_accepts_nothing() -> None:
    """If this fails, drafts are accepted by accident in schedules that were shrunk to nothing."""
    simulation = Simulation(small(vocab_size=2))
    simulation.apply(Submit(0, limit=60))
    for _ in range(12):
        simulation.apply(Step())
    lens = [step.result.new_tokens_lens for step in simulation.run.steps if step.result is not None]
    assert lens == [[1]] * 12


def test_a_warm_up_bears_live_names_if_it_is_asked_to_and_its_own_bucket() -> None:
    """If this fails, warm-ups under live names are never tried, or ragged captures have no size."""
    config = small(confidence_scheduling=True, graph_batch_sizes=(2,), verify_buckets=(5, 8))
    simulation = Simulation(config)
    for event in (Submit(0, prompt=2, limit=9), Step(), Step()):
        simulation.apply(event)
    own = simulation.apply(Warmup(rows=2))
    live = simulation.apply(Warmup(rows=2, live=True))
    capture = simulation.apply(Warmup(rows=2, capture=True, ragged=True))
    assert own is not None
    assert live is not None
    assert capture is not None
    running = simulation.engine.running[0].request_id
    assert [row.request_id for row in own.batch.generations] == [WARMUP_ID, WARMUP_ID + 1]
    assert [row.request_id for row in live.batch.generations] == [running, WARMUP_ID + 1]
    assert [row.proposed for row in live.batch.generations] == [0, 0]
    assert (own.batch.verify_bucket, capture.batch.verify_bucket) == (None, 8)
