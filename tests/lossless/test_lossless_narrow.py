"""A narrower draft vocabulary, and a draft law that is lent (semantics, section 19)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from batches import gen, make_batch, make_model, sampled, small

from draftproof.fuzz.lossless.decoding import BLOCK, Decoding, pairs, worker_config
from draftproof.gpu.worker import make
from draftproof.reference.acceptance import one_hot
from draftproof.reference.config import checked
from draftproof.reference.drafter import scattered
from draftproof.reference.model import make as model_make
from draftproof.reference.vocabulary import (
    Batch,
    Collaborators,
    Config,
    ConfigError,
    StepResult,
    Worker,
)
from draftproof.sim.loading import load
from draftproof.sim.shapes import listed

V, D2T = 8, (5, 1, 7, 2)
NARROW = small(use_rejection_sampling=True, vocab_size=V, d2t=D2T)


def workers(config: Config, law: Any = None) -> Iterator[Worker]:
    lent = Collaborators(lambda seam: None, lambda *_: ([], []), law)
    yield model_make(config, "cpu", lent)
    for kernels in ("eager", "triton"):
        yield make(config, "cpu", lent, kernels=kernels)


def run(worker: Worker, batch: Batch) -> StepResult:
    worker.prepare(batch)
    return worker.forward(batch)


@pytest.mark.interpreted
def test_a_narrow_block_by_hand() -> None:
    """If this fails, drafts or their probabilities are left in draft tokens (section 19).

    As `test_a_sampled_block_by_hand`, but modulo four draft tokens: sum 2, start 1, bonus 1.
      k = 0: 2 + 31 * 1 + 0 + 1 = 34 = 2;  p = 1/8, 1/8, 1/2, 1/4;  u = 1/2 takes 2, which is 7
      k = 1: 2 + 31 * 2 + 7 + 1 = 72 = 0;  p = 1/2, 1/4, 1/8, 1/8;  u = 1/4 takes 0, which is 5
      k = 2: 2 + 31 * 0 + 14 + 1 = 17 = 1;  p = 1/8, 1/2, 1/4, 1/8;  u = 1 takes the last, 3: 2
    """
    row = gen(10, 0, greedy=False, seq_slot=2)
    batch = sampled(row, r=3, q=[one_hot(1, V)] * 4, draft=[0.5, 0.25, 1.0])
    for worker in workers(NARROW):
        assert listed(run(worker, batch).next_new_tokens) == [[1, 7, 5, 2]]
        state = worker.state()
        assert listed(state.draft_probs)[2] == [
            [0, 0.125, 0.25, 0, 0, 0.125, 0, 0.5],
            [0, 0.25, 0.125, 0, 0, 0.5, 0, 0.125],
            [0, 0.5, 0.125, 0, 0, 0.125, 0, 0.25],
        ]
        logits = [2 + 13 * 1 + 0, 2 + 13 * 2 + 1, 2 + 13 * 0 + 2]  # prev is a draft token
        assert listed(state.confidence_logits)[0] == [(i % 64 - 32) / 8 for i in logits]


@pytest.mark.interpreted
@pytest.mark.parametrize("all_greedy", [True, False])
def test_argmax_drafts_are_tokens_of_the_target(all_greedy: bool) -> None:
    """If this fails, a greedy request's p is one-hot on a draft token."""
    row = gen(10, 0, seq_slot=2)
    batch = make_batch(row, r=3) if all_greedy else sampled(row, r=3, q=[one_hot(1, V)] * 4)
    for worker in workers(NARROW):
        block = listed(run(worker, batch).next_draft_tokens)[0]
        assert set(block) <= set(D2T)
        assert listed(worker.state().draft_probs)[2] == [one_hot(token, V) for token in block]


def test_scattering() -> None:
    """If this fails, mass lands on another token, or is lost."""
    assert scattered([0.5, 0.25, 0.25], (3, 0, 2), 5) == [0.25, 0, 0.25, 0.5, 0]
    assert scattered([0.5, 0.5], None, 2) == [0.5, 0.5]


REFUSED = [
    ({"d2t": (0, 1)}, "d2t is set, but use_rejection_sampling is off"),
    ({"drawn_uniforms": True}, "drawn_uniforms is set, but use_rejection_sampling is off"),
    ({"use_rejection_sampling": True, "d2t": ()}, "must name at least one token"),
    ({"use_rejection_sampling": True, "d2t": (1, 1)}, "none twice"),
    ({"use_rejection_sampling": True, "d2t": (0, 64)}, "must name tokens in 0..63"),
    ({"use_rejection_sampling": True, "d2t": (-1, 0)}, "must name tokens in 0..63"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[text for _, text in REFUSED])
def test_a_vocabulary_that_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    """If this fails, a setting is silently ignored, or indexes out of range."""
    with pytest.raises(ConfigError, match=message):
        checked(small(**changes))


def test_the_whole_vocabulary_in_another_order_is_allowed() -> None:
    """If this fails, `d2t` is tied to being narrower."""
    assert checked(small(use_rejection_sampling=True, vocab_size=3, d2t=(2, 0, 1))).d2t == (2, 0, 1)


@pytest.mark.parametrize("index", [1, 2, 4], ids=["exact, narrow", "lent", "lent, narrow"])
def test_model_and_worker_decode_alike(index: int) -> None:
    """If this fails, what is measured in this folder is not what the lockstep checks."""
    pair = pairs()[index]
    names = ("draftproof.reference.model:make", "draftproof.gpu.worker:make")
    one, two = (Decoding(pair, load(name)) for name in names)
    for step in range(12):
        r, greedy = step % (BLOCK + 1), step % 5 == 4
        left, right = one.step(r, greedy), two.step(r, greedy)
        assert listed(right.new_tokens_lens) == left.new_tokens_lens
        assert listed(right.next_new_tokens) == left.next_new_tokens
    assert one.emitted == two.emitted
    assert one.worker.state().draft_probs == listed(two.worker.state().draft_probs)


@pytest.mark.interpreted
def test_a_lent_law_is_what_is_published() -> None:
    """If this fails, drafts are drawn from one law and tested against another."""
    pair = pairs()[4]
    rows = [pair.wide(k) for k in range(BLOCK)]
    config = replace(worker_config(pair), max_num_requests=3)
    q = [list(pair.q)] * (1 + BLOCK)
    hot = [one_hot(row.index(max(row)), V) for row in rows if row]
    for greedy in (False, True):
        for worker in workers(config, pair.p):
            run(worker, sampled(gen(1, 3, greedy=False), r=3, q=q))
            run(worker, sampled(gen(1, 9, greedy=greedy), gen(2, 9, 2, seq_slot=1), r=3, q=q * 2))
            probs = listed(worker.state().draft_probs)
            assert probs[0] == (hot if greedy else rows)
            assert probs[1] == hot


def test_a_law_of_another_shape_is_refused() -> None:
    """If this fails, a law over the wrong vocabulary is broadcast."""
    lent = Collaborators(lambda seam: None, lambda *_: ([], []), [[0.5, 0.5]])
    with pytest.raises(AssertionError, match=r"a draft law of shape \[1, 2\]"):
        make(NARROW, "cpu", lent)


def test_the_model_without_a_law_uses_its_own() -> None:
    """If this fails, the tests above compare nothing."""
    plain, lent = (
        make_model(NARROW),
        model_make(
            NARROW,
            "cpu",
            Collaborators(lambda seam: None, lambda *_: ([], []), [[0, 0, 0, 1.0]] * 3),
        ),
    )
    batch = make_batch(gen(10, 0, seq_slot=2), r=3)
    assert run(lent, batch).next_draft_tokens == [[2, 2, 2]]
    assert run(plain, batch).next_draft_tokens != [[2, 2, 2]]
