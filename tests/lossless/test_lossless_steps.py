"""Steps that draw their own numbers: which number decides what, and how products are rounded."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from batches import gen, make_model, sampled, small

from draftproof.gpu.graphs import key_of
from draftproof.gpu.kernels.rejection import reject as triton_reject
from draftproof.gpu.operations import Counters
from draftproof.gpu.rejection import Sampling, reject
from draftproof.gpu.worker import make
from draftproof.reference.acceptance import accepted, recover, sample
from draftproof.reference.philox import uniform
from draftproof.reference.vocabulary import (
    PURPOSES,
    Batch,
    BatchError,
    Collaborators,
    Config,
    StepResult,
    Worker,
)
from draftproof.sim.shapes import listed

V, K, P = 8, 3, 40
CONFIG = small(use_rejection_sampling=True, vocab_size=V)
SEED, INCARNATION = 2**63 + 2**33 + 5, 9
LENT = Collaborators(lambda seam: None, lambda *_: ([], []))


def workers(config: Config = CONFIG) -> Iterator[Worker]:
    yield make_model(config)
    for kernels in ("eager", "triton"):
        yield make(config, "cpu", LENT, kernels=kernels)


def drawn(batch: Batch) -> Batch:
    """The batch without its random numbers."""
    return replace(batch, accept_uniforms=None, recover_uniforms=None, draft_uniforms=None)


def served(worker: Worker, *batches: Batch) -> tuple[StepResult, Any]:
    """The last result, and the state after it."""
    for batch in batches:
        worker.prepare(batch)
        result = worker.forward(batch)
    return result, listed(worker.state().draft_probs)


def numbers(purpose: str, positions: list[int]) -> array[float]:
    index = PURPOSES.index(purpose)
    return array("f", [uniform(SEED, INCARNATION, position, index) for position in positions])


def row(position: int, proposed: int) -> Any:
    return gen(3, position, INCARNATION, greedy=False, seed=SEED, proposed=proposed)


def schedule() -> Iterator[tuple[Batch, Batch]]:
    """Steps of one request without numbers, each with itself and what it should have drawn."""
    model, q = make_model(CONFIG), [[0.25, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.0]]
    position, drafts = P, [0, 0, 0]
    for step, (r, proposed) in enumerate([(3, 0), (3, 3), (2, 2), (1, 1), (3, 1), (0, 0)] * 4):
        drafts = drafts[:proposed] + [0] * (r - proposed)
        batch = sampled(row(position, proposed), r=r, q=q * (1 + r), step=step)
        batch = replace(batch, drafts=array("q", drafts))
        (result, _), a = served(model, drawn(batch)), 0
        a = result.new_tokens_lens[0] - 1
        given = replace(
            batch,
            accept_uniforms=numbers("accept", [position + 1 + i for i in range(r)]),
            recover_uniforms=numbers("recover", [position + 1 + a]),
            draft_uniforms=numbers("draft", [position + a + 2 + k for k in range(K)]),
        )
        yield drawn(batch), given
        position, drafts = position + a + 1, result.next_draft_tokens[0]


@pytest.mark.interpreted
def test_which_number_decides_what() -> None:
    """If this fails, a number is keyed by another position or purpose than section 19 says."""
    steps = list(schedule())
    counts = set()
    for mine, given in zip(workers(), workers(), strict=True):
        for batch, same in steps:
            one, two = served(mine, batch), served(given, same)
            assert listed(one[0].new_tokens_lens) == listed(two[0].new_tokens_lens)
            assert listed(one[0].next_new_tokens) == listed(two[0].next_new_tokens)
            assert str(one[1]) == str(two[1])
            counts.add(listed(one[0].new_tokens_lens)[0])
    assert counts == {1, 2, 3, 4}, "some numbers of accepted drafts never came"


def test_no_number_is_used_twice() -> None:
    """If this fails, two tokens that are emitted were decided by one number."""
    accepts: list[int] = []
    recovers: list[int] = []
    drafts: list[int] = []
    known = P
    for batch, given in schedule():
        position, proposed = batch.generations[0].position, batch.generations[0].proposed
        found = [numbers("recover", [position + 1 + i]) for i in range(K + 1)]
        assert given.recover_uniforms is not None
        a = found.index(given.recover_uniforms)
        accepts += range(position + 1, position + 1 + min(a + 1, batch.draft_len))
        recovers.append(position + 1 + a)
        drafts += [known + 1 + i for i in range(min(a + 1, proposed))]  # those that were tested
        known = position + a + 1
    for used in (accepts, recovers, drafts):
        assert len(set(used)) == len(used)


@pytest.mark.parametrize("missing", ["accept_uniforms", "recover_uniforms", "draft_uniforms"])
def test_some_of_the_numbers_are_an_error(missing: str) -> None:
    """If this fails, a forgotten array is filled up with numbers of another origin."""
    worker = make(CONFIG, "cpu", LENT)
    changes: dict[str, Any] = {missing: None}
    batch = replace(sampled(row(P, 0), r=3), **changes)
    worker.prepare(batch)
    with pytest.raises(BatchError, match=f"^{missing} is missing, . numbers expected$"):
        worker.forward(batch)


def test_a_graph_knows_whether_numbers_are_drawn() -> None:
    """If this fails, a replay draws where the batch brings numbers, or the other way round."""
    batch = replace(sampled(row(P, 0), r=3), mode="replay")
    assert key_of(batch) != key_of(drawn(batch))
    greedy = replace(batch, all_greedy=True)
    assert key_of(greedy) == key_of(drawn(greedy))


# Rounding: u · p is below q by less than half a last place, so the product is q itself.

WHOLE = 1023 / 1024
EDGE = next(c for c in range(600, 1023) if 0 < (c << 24) % 1023 < 512)
U, EQUAL = ((EDGE << 24) // 1023) / 2**24, EDGE / 1024
LAW_P = [WHOLE, 1 / 1024]
LAW_Q = [EQUAL, 1 - EQUAL]


def test_the_example_is_one() -> None:
    """If this fails, the tests below do not tell one rounding from none."""
    assert U * WHOLE < EQUAL
    assert float(torch.tensor(U) * torch.tensor(WHOLE)) == EQUAL


def test_the_model_rounds_products_to_float32() -> None:
    """If this fails, model and worker part once in some ten million draws."""
    assert accepted([0], [LAW_P], [LAW_Q, LAW_Q], [U]) == 0
    assert sample([EQUAL, WHOLE - EQUAL], U) == 1
    assert recover([EQUAL, WHOLE - EQUAL, 0.0], [0.0, 0.0, 0.0], U) == 1


def sampling(accept: float, ending: float, q: list[list[float]]) -> Sampling:
    return Sampling(
        target_probs=torch.tensor([q]),
        proposed=torch.tensor([1]),
        greedy=torch.tensor([False]),
        accept_uniforms=torch.tensor([[accept]]),
        recover_uniforms=torch.full((1, 2), ending),
        draft_uniforms=torch.zeros(1, 2, 1),
    )


@pytest.mark.interpreted
@pytest.mark.parametrize("kernels", ["eager", "triton"])
def test_workers_round_products_to_float32(kernels: str) -> None:
    """If this fails, a backend multiplies in another precision than the model."""
    drafts, probs = torch.tensor([[0]]), torch.tensor([[LAW_P]])
    state = [torch.zeros(2, dtype=dtype) for dtype in (torch.int64, torch.int64, torch.bool)]
    zero = torch.tensor([0])
    counters = Counters(state[0], state[1], state[2], zero, zero, 4)
    run = reject if kernels == "eager" else partial(_triton, counters)
    tokens, counts = run(drafts, probs, sampling(U, 1.0, [LAW_Q, LAW_Q]), None)
    assert (counts.tolist(), tokens[0, 0].item()) == ([1], 1), "rejected: u * p rounds to q"
    mass = [EQUAL, WHOLE - EQUAL]  # total 1023/1024: the threshold rounds to the first running sum
    tokens, counts = run(drafts, probs, sampling(2.0**-20, U, [[1.0, 0.0], mass]), None)
    assert (counts.tolist(), tokens.tolist()) == ([2], [[0, 1]])


def _triton(counters: Counters, drafts: Any, probs: Any, numbers: Sampling, windows: Any) -> Any:
    return triton_reject(drafts, probs, torch.tensor([0]), numbers, windows, counters)[:2]
