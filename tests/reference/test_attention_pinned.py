"""What the attention is set up for (sections 10 and 19), by hand."""

from batches import ctx, gen, make_batch, make_model, run, small

from draftproof.reference.attention import drafter_rows, target_rows


def test_the_target_reads_chunks_and_the_drafter_blocks_of_generations() -> None:
    """If this fails, drafting is set up for other rows than it has, or as the target is."""
    rows = ctx(10, 0, 2), ctx(20, 4, 5, 2), gen(30, 6, 3), gen(40, 9, 4)
    batch = make_batch(*rows, r=2)
    assert target_rows(batch) == [2, 5, 3, 3]
    assert drafter_rows(batch, 4) == [0, 0, 4, 4]
    without = make_batch(*rows, r=0)
    assert target_rows(without) == [2, 5, 1, 1]
    assert drafter_rows(without, 4) == [0, 0, 0, 0]


def test_a_window_changes_nothing_of_it_and_every_step_puts_it_back() -> None:
    """If this fails, the target's next step is set up for the drafter's rows."""
    model = make_model(small(confidence_scheduling=True))
    batch = make_batch(ctx(10, 0, 2), gen(30, 6, 3), r=3, verify_lens=(2,))
    run(model, batch)
    assert model.state().attention_rows == [2, 4]
