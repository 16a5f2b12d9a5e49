"""What the stopwatch of `draftproof bench` runs: the same step, and nothing beside it."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from device import DEVICE
from kernels.inputs import DRAFT_SIZES

from draftproof.gpu import measured, worker
from draftproof.gpu.draft_model.shape import weight_shapes
from draftproof.reference.vocabulary import Batch, Collaborators, Config
from draftproof.sim.packing import before_target, isolated, poison
from draftproof.sim.shapes import listed


def test_forward_finds_its_inputs_on_the_device(build: Callable[..., Batch]) -> None:
    """If this fails, what is measured as a kernel's time is the harness's way to the device."""
    config = Config(3, 8, 2, 4, poison=True)
    lent = Collaborators(lambda seam: None, drafter=lambda *_: ([], []))
    plain, resident = (make(config, DEVICE.type, lent) for make in (worker.make, measured.make))
    prompt = build(3, contexts=[(1, 1, 0, 5), (2, 2, 0, 3)], step=0)
    step = build(3, generations=[(1, 1, 5, 2), (2, 2, 3, 4)], step=1)
    for batch in (prompt, step):
        mine = isolated(batch)
        resident.prepare(mine)
        poison(mine)
        plain.prepare(before_target(batch))
        expected = plain.forward(batch)
        assert batch.hidden is not None
        taken = resident.forward(replace(batch, hidden=array("b", bytes(len(batch.hidden)))))
        assert listed(taken.next_new_tokens) == listed(expected.next_new_tokens)
        assert resident.state().windows == plain.state().windows


def block(**options: Any) -> measured.Block:
    return measured.make_block(DRAFT_SIZES, 3, DEVICE.type, **options)


@pytest.mark.interpreted
def test_a_block_is_drafted_alike_in_every_setting() -> None:
    """If this fails, a ratio of Triton's, or of a replay's, is that of something else."""
    tokens = block().run()
    assert tokens.shape == (3, 3)
    assert len(set(tokens.flatten().tolist())) > 3
    for kernels in ("eager", "triton"):
        for graphs in (False, True):
            made = block(kernels=kernels, graphs=graphs)
            assert made.run().tolist() == made.run().tolist() == tokens.tolist()


def chain(**options: Any) -> measured.Chain:
    return measured.make_chain(DRAFT_SIZES, 3, DEVICE.type, **options)


@pytest.mark.interpreted
def test_a_chain_is_one_chain_in_every_setting() -> None:
    """If this fails, launches are counted that do something else."""
    tokens = chain().run()
    assert tokens.shape == (3, 3)
    assert len(set(tokens.flatten().tolist())) > 3
    for kernels in ("eager", "triton", "joined"):
        for graphs in (False, True):
            made = chain(kernels=kernels, graphs=graphs)
            assert made.run().tolist() == made.run().tolist() == tokens.tolist()


@pytest.mark.interpreted
@pytest.mark.parametrize(("kernels", "launches"), [("triton", 2 * 3), ("joined", 3 + 1)])
def test_a_chain_has_the_launches_that_it_says(kernels: str, launches: int) -> None:
    """If this fails, the two chains that are compared are one."""
    from draftproof.gpu.kernels.launching import launching_by

    made, seen = chain(kernels=kernels), []
    with launching_by(lambda kernel, *_: seen.append(kernel)):
        made.run()
    assert len(seen) == launches


def test_the_bytes_of_a_chain_by_hand() -> None:
    """If this fails, ratios are to bytes that a chain need not move, or not to all that it must.

    Three requests, K = 3, V = 30, M = 7: logits of four bytes, W2 of two, nine rows of W1, nine
    tokens of eight.
    """
    assert chain().moved == 4 * 3 * 3 * 30 + 2 * 30 * 7 + 9 * 2 * 7 + 9 * 8


def test_a_replay_of_a_block_looks_at_its_windows() -> None:
    """If this fails, a replay replays nothing."""
    made, other = block(graphs=True), block()
    before = made.run().tolist()
    for each in (made, other):
        each.given[0].neg_()
    assert made.run().tolist() == other.run().tolist() != before


def test_the_bytes_of_a_block_by_hand() -> None:
    """If this fails, ratios are to bytes that a block need not move, or not to all that it must.

    Three requests, K = 3. Weights of two bytes: the head, W2, norms, of both stages the rest;
    confidence and sinks have four. Of the embedding 3 + 1 rows of 16, of W1 nine of 7. Windows of
    4 rows of 8 in two stages. Nine tokens of 8 bytes, nine confidences of 4.
    """
    stage = 16 + 6 * 16 + 6 + 16 * 6 + 8 * 16 + 8 + 5 * 16 + 16 * 5 + 16 + 3 * 10 * 16
    weights = 2 * (30 * 16 + 30 * 7 + 16 + 2 * stage) + 4 * (16 + 7 + 2 * 2)
    looked_up = 2 * (4 * 16 + 9 * 7)
    assert block().moved == weights + looked_up + 3 * 2 * 4 * 8 * 2 + 9 * (8 + 4)


def test_what_a_block_does_without() -> None:
    """If this fails, the bytes of a weight are left out that a block needs.

    Weights that do not count are NaN, or no row of theirs is read that is not counted.
    """
    made = block()
    expected = made.run().tolist()
    for name in measured.ELSEWHERE:
        getattr(made.model.weights, name).fill_(float("nan"))
    assert made.run().tolist() == expected
    rest = set(weight_shapes(made.model.shape)) - {*measured.ELSEWHERE, *measured.LOOKED_UP}
    for name in rest:
        weight = getattr(made.model.weights, name)
        before = weight.clone()
        weight.fill_(float("nan"))
        draft = made.model.draft(*made.given)
        shown = draft.confidence.isnan().any() or draft.logits.isnan().any()
        assert shown or (name == "w2" and not draft.tokens.any()), name  # of all NaN the first
        weight.copy_(before)
    assert torch.equal(made.run(), torch.tensor(expected, device=DEVICE))
