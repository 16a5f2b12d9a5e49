"""What a batch brings along, row by row, and the graph of a planned step."""

from batches import gen, small

from draftproof.sim.assembly import ACCEPT, DRAFT, RECOVER, Rows, assemble
from draftproof.sim.snapshots import shape_of
from draftproof.sim.target import target_probs, uniform

CONFIG = small(use_rejection_sampling=True, vocab_size=8)


def test_every_number_is_that_of_its_request_and_position() -> None:
    """If this fails, rows meet probabilities and numbers of other positions or requests."""
    rows = [gen(10, 4, 1, greedy=False), gen(20, 30, 2, greedy=False)]
    batch = assemble(
        CONFIG, Rows(0, "eager", 2, (), rows, [[1, 2, 3], [4, 5, 6]], [2, 0], windows=None)
    )
    answers = [batch.target_tokens[:3], batch.target_tokens[3:]]
    assert list(answers[0][:2]) == [2, 3]
    assert answers[1][0] != 5
    probs, accept, recover, draft = [], [], [], []
    for row, answer in zip(rows, answers, strict=True):
        who, at = row.incarnation, row.position
        for i, token in enumerate(answer):
            probs += target_probs(CONFIG, who, at + i, token, False)
        accept += [uniform(who, at, ACCEPT), uniform(who, at + 1, ACCEPT)]
        recover += [uniform(who, at, RECOVER)]
        draft += [uniform(who, at + k, DRAFT) for k in range(3)]
    assert batch.target_probs is not None
    assert batch.accept_uniforms is not None
    assert batch.recover_uniforms is not None
    assert batch.draft_uniforms is not None
    assert list(batch.target_probs) == probs
    assert list(batch.accept_uniforms) == accept
    assert list(batch.recover_uniforms) == recover
    assert list(batch.draft_uniforms) == draft


def test_a_planned_step_takes_the_smallest_graph_that_holds_all_its_drafts() -> None:
    """If this fails, a plan is made for a graph that cannot hold it, or too large a one."""
    plain = small(confidence_scheduling=True, graph_batch_sizes=(1, 2))
    assert shape_of(plain, 1, 3) == (1, 0)
    assert shape_of(plain, 0, 3) == (1, 0)
    assert shape_of(plain, 2, 0) == (2, 0)
    assert shape_of(plain, 3, 0) is None
    buckets = small(confidence_scheduling=True, graph_batch_sizes=(1, 2), verify_buckets=(3, 5, 8))
    assert shape_of(buckets, 1, 0) == (1, 3)  # at least the anchor and one draft
    assert shape_of(buckets, 1, 1) == (1, 3)
    assert shape_of(buckets, 1, 2) == (2, 5)  # 4 tokens, and a row has no window of 5
    assert shape_of(buckets, 1, 99) == (2, 5)
    assert shape_of(buckets, 2, 1) == (2, 5)
    assert shape_of(buckets, 2, 2) == (2, 8)
    assert shape_of(buckets, 2, 99) == (2, 8)
