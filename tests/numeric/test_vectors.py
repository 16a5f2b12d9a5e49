"""Vectors worked out by hand, or from the published formulas, on every set of operations.

None of the expected numbers comes from running a model: reference and torch cannot share a guess.
"""

from __future__ import annotations

from itertools import product
from math import cos, exp, inf, log, sin, sqrt
from random import Random

import pytest

from numeric.implementations import IMPLEMENTATIONS, Implementation, some_weights

every = pytest.mark.parametrize("do", IMPLEMENTATIONS, ids=lambda do: type(do).__name__)
pytestmark = pytest.mark.interpreted


# ---- norms ---------------------------------------------------------------------------------------


@every
def test_rms_norm_divides_by_the_root_mean_square(do: Implementation) -> None:
    """If this fails, RMSNorm is another norm: [3, 4] has the mean square 12.5."""
    found = do.rms_norm([3.0, 4.0], [1.0, 2.0], 0.0)
    assert found == pytest.approx([3 / sqrt(12.5), 8 / sqrt(12.5)], rel=do.exact)
    assert found == pytest.approx([0.848528137, 2.262741700], rel=1e-6)


@every
def test_eps_is_added_under_the_root(do: Implementation) -> None:
    """If this fails, rows as small as eps's root are scaled wrongly: the mean square is eps too."""
    found = do.rms_norm([0.001, -0.001], [1.0, 1.0], 1e-6)
    assert found == pytest.approx([sqrt(0.5), -sqrt(0.5)], rel=10 * do.exact)
    assert do.rms_norm([0.0, 0.0], [1.0, 1.0], 1e-6) == [0.0, 0.0]


@every
def test_a_query_head_has_the_mean_square_one(do: Implementation) -> None:
    """If this fails, the per-head norm has a weight, or divides by another length."""
    found = do.head_norm([1.0, 1.0, 1.0, 5.0], 0.0)
    assert found == pytest.approx(
        [1 / sqrt(7), 1 / sqrt(7), 1 / sqrt(7), 5 / sqrt(7)], rel=do.exact
    )


# ---- rotary --------------------------------------------------------------------------------------


@every
def test_a_unit_pair_turns_by_position_times_angle(do: Implementation) -> None:
    """If this fails, angles are not position · 10000^(-2i / d), or pairs are not adjacent."""
    found = do.rotary([1.0, 0.0, 1.0, 0.0], 3, 4, inverse=False)
    assert found == pytest.approx([cos(3), sin(3), cos(0.03), sin(0.03)], abs=do.exact)
    assert found == pytest.approx([-0.98999250, 0.14112001, 0.99955003, 0.02999550], abs=1e-6)
    assert do.rotary([0.0, 1.0], 3, 2, inverse=False) == pytest.approx(
        [-sin(3), cos(3)], abs=do.exact
    )


@every
def test_only_the_last_components_turn(do: Implementation) -> None:
    """If this fails, rotary is applied to the first components, or to all."""
    found = do.rotary([7.0, -2.0, 5.0, 1.0, 0.0], 1, 2, inverse=False)
    assert found == pytest.approx([7.0, -2.0, 5.0, cos(1), sin(1)], abs=do.exact)


@every
@pytest.mark.parametrize("position", [0, 1, 127, 4097, 8000])
def test_the_inverse_undoes_the_rotary(do: Implementation, position: int) -> None:
    """If this fails, the output of attention is not turned back to where it came from."""
    row = [0.5, -1.0, 2.0, 0.25, -0.75, 1.5]
    turned = do.rotary(row, position, 4, inverse=False)
    back = do.rotary(turned, position, 4, inverse=True)
    assert back == pytest.approx(row, abs=4 * do.exact)
    assert (turned == pytest.approx(row, abs=1e-3)) == (position == 0)


@every
def test_scores_depend_on_distance_only(do: Implementation) -> None:
    """If this fails, rotary is not a relative position: 5000 and 5 must look as 4998 and 3."""
    q, k = [1.0, 2.0, -1.0, 0.5], [0.5, 1.0, 1.0, -2.0]

    def score(p: int, at: int) -> float:
        a, b = do.rotary(q, p, 4, inverse=False), do.rotary(k, at, 4, inverse=False)
        return sum(x * y for x, y in zip(a, b, strict=True))

    assert score(5000, 4998) == pytest.approx(score(5, 3), abs=20 * do.exact)
    assert score(5, 3) != pytest.approx(score(5, 4), abs=0.01)


# ---- attention with a sink -----------------------------------------------------------------------


@every
def test_the_sink_takes_its_part_of_the_denominator(do: Implementation) -> None:
    """If this fails, the sink is missing, or has a value: masses are 2 and 3 of 2 + 3 + 5."""
    found = do.attention([1.0], [[log(2)]], [[log(3)]], log(5))
    assert found == pytest.approx([(2 * log(2) + 3 * log(3)) / 10], rel=do.exact)


@every
def test_scores_are_scaled_by_the_root_of_the_width(do: Implementation) -> None:
    """If this fails, scores are not divided by sqrt(head_dim) = 2: masses are e and 1."""
    found = do.attention([2.0, 0.0, 0.0, 0.0], [[1.0, 8.0, 0.0, 0.0]], [[0.0, 0.0, 6.0, 0.0]], 0.0)
    total = exp(1) + 2
    assert found == pytest.approx([exp(1) / total, 8 * exp(1) / total, 6 / total, 0], rel=do.exact)


@every
@pytest.mark.parametrize("sink", [-inf, -1000.0, 0.0, 5.0, 1000.0])
def test_equal_rows_share_what_the_sink_leaves(do: Implementation, sink: float) -> None:
    """If this fails, the softmax overflows, or an absent sink changes it: n rows of one value."""
    found = do.attention([1.0], [[2.0]] * 3, [[2.0]] * 2, sink)
    share = 5 / (5 + exp(sink - 2)) if sink < 100 else 0.0
    assert found == pytest.approx([2 * share], rel=do.exact, abs=1e-30)


@every
def test_scores_far_beyond_the_exponential_do_not_overflow(do: Implementation) -> None:
    """If this fails, the largest score is not taken off before the exponential."""
    assert do.attention([100.0], [[90.0]], [[90.0 + log(3) / 100]], 0.0) == pytest.approx(
        [90 + 0.75 * log(3) / 100], rel=do.exact
    )


@every
def test_an_empty_window_leaves_the_block(do: Implementation) -> None:
    """If this fails, a request without history cannot draft."""
    found = do.attention([1.0], [], [[0.0], [log(3)]], -inf)
    assert found == pytest.approx([0.75 * log(3)], rel=do.exact)


# ---- output, feed-forward, capture ---------------------------------------------------------------


@every
def test_the_grouped_output_is_a_block_diagonal_matrix(do: Implementation) -> None:
    """If this fails, groups are made of other heads, or mixed: 4 heads of 2, 2 groups of rank 3."""
    random = Random(0)
    heads = [[random.gauss(0, 1) for _ in range(2)] for _ in range(4)]
    wo_a = [[[random.gauss(0, 1) for _ in range(4)] for _ in range(3)] for _ in range(2)]
    wo_b = [[random.gauss(0, 1) for _ in range(6)] for _ in range(5)]
    flat = [x for head in heads for x in head]
    diagonal = [row + [0.0] * 4 for row in wo_a[0]] + [[0.0] * 4 + row for row in wo_a[1]]
    low = [sum(w * x for w, x in zip(row, flat, strict=True)) for row in diagonal]
    expected = [sum(w * x for w, x in zip(row, low, strict=True)) for row in wo_b]
    assert do.grouped_output(heads, wo_a, wo_b) == pytest.approx(expected, rel=20 * do.exact)


@every
def test_the_feed_forward_gates_with_silu(do: Implementation) -> None:
    """If this fails, gate and up have changed places: silu(log 3) = 0.75 log 3, silu(-log 3) ..."""
    gate, up = [[log(3)], [-log(3)]], [[2.0], [8.0]]
    opened = [0.75 * log(3) * 2, 0.25 * -log(3) * 8]
    found = do.feed_forward([1.0], gate, up, [[1.0, 0.0], [1.0, 1.0]])
    assert found == pytest.approx([opened[0], sum(opened)], rel=do.exact)


@every
def test_captured_rows_are_means_of_their_streams(do: Implementation) -> None:
    """If this fails, streams are summed, interleaved or picked: one after another they lie."""
    layers = [[1.0, 2.0, 3.0, 10.0, 20.0, 30.0], [0.0, 4.0, 8.0, 2.0, 4.0, 6.0]]
    assert do.stream_mean(layers, 2) == [5.5, 11.0, 16.5, 1.0, 4.0, 7.0]


# ---- heads ---------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("seed", range(8))
def test_the_chain_is_the_best_of_all_continuations(do: Implementation, seed: int) -> None:
    """If this fails, the Markov chain is not greedy: no continuation is better where they part.

    All V^K = 256 are tried; the best has the largest first logit, then the largest second, ...
    """
    random, vocab, block = Random(seed), 4, 4
    logits = [[float(random.randrange(9)) for _ in range(vocab)] for _ in range(block)]
    w1 = [[float(random.randrange(-2, 3)) for _ in range(2)] for _ in range(vocab)]
    w2 = [[float(random.randrange(-2, 3)) for _ in range(2)] for _ in range(vocab)]

    def merits(tokens: tuple[int, ...]) -> list[tuple[float, int]]:
        before = (3, *tokens)
        return [
            (logits[k][x] + sum(a * b for a, b in zip(w1[before[k]], w2[x], strict=True)), -x)
            for k, x in enumerate(tokens)
        ]

    best = max(product(range(vocab), repeat=block), key=merits)
    assert do.markov_chain(logits, 3, w1, w2) == list(best)


@every
def test_the_recurrent_head_takes_two_steps(do: Implementation) -> None:
    """If this fails, the recurrent head is another cell. All three weights see only W1[prev] = 1,
    so that every step has the gate sigmoid(log 3) = 3/4, the candidate tanh(log 2) = 3/5; the
    output also sees the state: tanh(log 3 + 10 s). States before the steps: 0, then 3/20.
    """
    weights = some_weights(
        w1=[[1.0], [1.0]],
        w2=[[1.0], [-2.0]],
        rnn_gate=[[0.0, log(3), 0.0]],
        rnn_candidate=[[0.0, log(2), 0.0]],
        rnn_output=[[10.0, log(3), 0.0]],
    )
    first, second = do.rnn_biases([[9.0], [9.0]], [0, 1], weights)
    assert first == pytest.approx([0.8, -1.6], rel=do.exact)
    output = (9 * exp(3) - 1) / (9 * exp(3) + 1)
    assert second == pytest.approx([output, -2 * output], rel=do.exact)


@every
def test_the_recurrent_head_sees_state_token_and_hidden_row_in_this_order(
    do: Implementation,
) -> None:
    """If this fails, z is put together otherwise: weights of 1, 2 and 4 tell who is where."""
    weights = some_weights(
        w1=[[0.0], [0.25]],
        w2=[[1.0], [0.0]],
        rnn_gate=[[0.0, 0.0, 0.0]],
        rnn_candidate=[[0.0, 0.0, 1.0]],
        rnn_output=[[1.0, 2.0, 4.0]],
    )
    first, second = do.rnn_biases([[0.5], [0.125]], [1, 0], weights)
    half_tanh = (exp(1) - 1) / (exp(1) + 1)
    tanh = [(exp(2 * x) - 1) / (exp(2 * x) + 1) for x in (2.5, half_tanh / 2 + 0.5)]
    assert first[0] == pytest.approx(tanh[0], rel=do.exact)
    assert second[0] == pytest.approx(tanh[1], rel=do.exact)


@every
def test_confidence_reads_the_hidden_row_then_the_token_before(do: Implementation) -> None:
    """If this fails, the confidence head is fed otherwise: 1·2 + 10·3 + 100·(W1[1] = 7)."""
    assert do.confidence([2.0, 3.0], [[5.0], [7.0]], 1, [1.0, 10.0, 100.0]) == pytest.approx(732)
