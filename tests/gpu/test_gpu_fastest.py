"""The form of a computation that a device is quickest with is the one that serves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from device import DEVICE
from torch import Tensor

from draftproof.gpu.draft_model import heads
from draftproof.gpu.kernels import fastest
from draftproof.gpu.kernels.draft_model import OPERATIONS
from draftproof.gpu.kernels.fastest import Fastest
from draftproof.gpu.kernels.launching import launching_by
from draftproof.gpu.recorded_calls import RecordedCalls

pytestmark = pytest.mark.interpreted

CLOCK = torch.zeros((), dtype=torch.int64, device=DEVICE)
"""What a form takes, in additions to this."""


def form(additions: int) -> Callable[[Tensor], Tensor]:
    def run(given: Tensor) -> Tensor:
        for _ in range(additions):
            CLOCK.add_(1)
        return given + additions

    return run


SLOW, QUICK = form(5), form(2)


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastest, "perf_counter", lambda: float(CLOCK))


def test_the_seconds_of_a_form_are_those_of_one_replay() -> None:
    """If this fails, warming up is measured, or nothing is."""
    given = [torch.zeros(3, device=DEVICE)]
    assert fastest.seconds(SLOW, given) == 5
    assert fastest.seconds(QUICK, given) == 2


def test_of_some_replays_the_least_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, what else ran on the machine, or a first replay, decides between forms."""
    starts_and_ends = iter([0.0, 9.0, 10.0, 12.0, 20.0, 23.0, 30.0, 34.0, 40.0, 45.0])
    monkeypatch.setattr(fastest, "perf_counter", lambda: next(starts_and_ends))
    assert fastest.seconds(QUICK, [torch.zeros(3, device=DEVICE)]) == 2
    assert next(starts_and_ends, None) is None


@pytest.mark.parametrize("forms", [(SLOW, QUICK), (QUICK, SLOW)])
def test_the_quickest_form_serves(forms: Sequence[Callable[[Tensor], Tensor]]) -> None:
    """If this fails, the chain is in the number of launches that was not the fastest."""
    choose = Fastest(*forms)
    assert choose(torch.zeros(3, device=DEVICE)).tolist() == [2.0] * 3
    assert list(choose.chosen.values()) == [QUICK]


def test_sizes_are_measured_once_each() -> None:
    """If this fails, every step pays for measurements, or one size answers for another."""
    measured: list[tuple[int, ...]] = []

    def measure(form: Callable[[Tensor], Tensor], given: Sequence[Tensor]) -> float:
        measured.append(tuple(given[0].shape))
        return 1.0 if (form is SLOW) == (len(given[0]) > 3) else 2.0

    choose = Fastest(SLOW, QUICK, measure=measure)
    few, many = torch.zeros(3, device=DEVICE), torch.zeros(9, device=DEVICE)
    for _ in range(2):
        assert choose(few).tolist() == [2.0] * 3
        assert choose(many).tolist() == [5.0] * 9
    assert measured == [(3,), (3,), (9,), (9,)]


def test_nothing_is_measured_in_a_capture() -> None:
    """If this fails, a graph holds the replays of a measurement, or cannot be captured."""
    choose, given = Fastest(SLOW, QUICK), torch.zeros(3, device=DEVICE)
    with launching_by(lambda *_: None):
        assert choose(given).tolist() == [5.0] * 3
    recorded = RecordedCalls(partial(choose, given))
    assert choose.chosen == {}
    recorded.replay()
    assert recorded.result.tolist() == [5.0] * 3
    assert choose(given).tolist() == [2.0] * 3
    recorded = RecordedCalls(partial(choose, given))
    recorded.replay()
    assert recorded.result.tolist() == [2.0] * 3


def test_the_markov_chain_is_either_form_and_gives_the_same_tokens() -> None:
    """If this fails, a draft model on Triton has one form of the chain only, or drafts others."""
    chain = OPERATIONS.markov_chain
    assert isinstance(chain, Fastest)
    assert len(chain.forms) == 2
    numbers = torch.Generator().manual_seed(0)
    logits, w1, w2 = (
        torch.randint(-4, 5, size, generator=numbers).float().to(DEVICE)
        for size in ((3, 4, 30), (30, 7), (30, 7))
    )
    given = logits, torch.tensor([3, 0, 29], device=DEVICE), w1, w2
    wanted = heads.markov_chain(*given).tolist()
    assert chain(*given).tolist() == wanted
    assert [each(*given).tolist() for each in chain.forms] == [wanted] * 2
    sizes = tuple((tensor.shape, tensor.dtype, tensor.device) for tensor in given)
    assert chain.chosen[sizes] in chain.forms
