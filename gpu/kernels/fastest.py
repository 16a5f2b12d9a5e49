"""Which of several forms of one computation is the fastest, found out on the device at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter

import torch
from torch import Tensor

from draftproof.gpu.graphs import captured_alone
from draftproof.gpu.kernels.launching import watched

Form = Callable[..., Tensor]
REPLAYS = 5


def seconds(form: Form, given: Sequence[Tensor]) -> float:
    """The least of some replays of a form: in graphs, where steps run, the host launches nothing.

    On a CPU recorded calls are replayed (gpu/recorded_calls.py).
    """
    device = given[0].device
    graph, least = captured_alone(partial(form, *given), device), float("inf")
    for _ in range(REPLAYS):
        start = perf_counter()
        graph.replay()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        least = min(least, perf_counter() - start)
    return least


class Fastest:
    """Several functions that give the same bits; a call runs the fastest of them at its sizes.

    They are measured when sizes come for the first time. Not while a graph is captured, or somebody
    watches the launches: the first form serves then, and nothing is settled. What is captured has
    run once before (`Graphs.warming_up`), so its sizes are known.
    """

    def __init__(
        self, *forms: Form, measure: Callable[[Form, Sequence[Tensor]], float] = seconds
    ) -> None:
        self.forms = forms
        self.chosen: dict[tuple[object, ...], Form] = {}
        self._measure = measure

    def __call__(self, *given: Tensor) -> Tensor:
        """Arguments and result are those of the forms."""
        sizes = tuple((tensor.shape, tensor.dtype, tensor.device) for tensor in given)
        form = self.chosen.get(sizes)
        if form is None and watched(given[0].device):
            return self.forms[0](*given)
        if form is None:
            form = min(self.forms, key=lambda each: self._measure(each, given))
            self.chosen[sizes] = form
        return form(*given)
