"""The contract of draft workers: who writes `forward`, and what happens behind it."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import pytest
import torch

from draftproof.gpu import contract
from draftproof.gpu.contract import DraftWorker
from draftproof.gpu.options import read_options
from draftproof.gpu.worker import DSparkWorker
from draftproof.reference.vocabulary import SEAMS, Batch, Collaborators, Config, StepResult

Build = Callable[..., Batch]
Start = Callable[..., DSparkWorker]


def quiet(at: Callable[[str], None] = lambda seam: None, **more: Any) -> Collaborators:
    return Collaborators(at, lambda *_: ([], []), **more)


class Honest(DraftWorker):
    """The smallest worker there is."""

    def _forward_impl(self, batch: Batch) -> StepResult:
        self.at("accept")
        self.crossing.cross(self.at)
        return StepResult([[1]], [1], [[]], [[1]], "uniform")


CONFIG = Config(3, 8, 2, 4)


# ---- refused


def test_a_subclass_that_defines_forward_is_refused_when_it_is_created() -> None:
    """If this fails, a subclass can go round the clean-up."""
    with pytest.raises(TypeError) as info:
        type("Own", (DraftWorker,), {"forward": lambda self, batch: None})
    assert str(info.value) == (
        "Own defines forward, which belongs to DraftWorker: "
        "implement Own._forward_impl(batch) -> StepResult"
    )


def test_a_mixin_that_defines_forward_is_refused_by_name() -> None:
    """If this fails, a base class beside ours goes round the clean-up, and nobody is told which."""

    class Logging:
        def forward(self, batch: Batch) -> None: ...

    with pytest.raises(TypeError) as info:
        type("Mixed", (Logging, Honest), {})
    assert str(info.value) == (
        "Logging, a base of Mixed, defines forward, which belongs to DraftWorker: "
        "implement Logging._forward_impl(batch) -> StepResult"
    )
    type("Behind", (Honest, Logging), {})  # ours is found first, so theirs is never called


def test_one_without_the_implementation_is_refused_when_it_is_instantiated() -> None:
    """If this fails, a worker without any work fails in its first step, not at the start."""
    bare = type("Bare", (DraftWorker,), {})
    with pytest.raises(TypeError) as info:
        bare(CONFIG, quiet())
    assert str(info.value) == (
        "Bare has no _forward_impl: implement Bare._forward_impl(batch) -> StepResult"
    )


def test_what_gets_past_the_class_is_told_by_name() -> None:
    """If this fails, wrappers and test stubs run without any clean-up, and nobody is told."""
    worker = Honest(CONFIG, quiet())
    DraftWorker.conforming(worker)

    class Wrapper:
        def __init__(self, inner: DraftWorker) -> None:
            self.forward = inner.forward

    with pytest.raises(TypeError, match=r"^Wrapper is no DraftWorker, .* implement Wrapper\._forw"):
        DraftWorker.conforming(Wrapper(worker))
    vars(worker)["forward"] = lambda batch: None
    with pytest.raises(TypeError, match=r"^forward was replaced on an instance of Honest: repl"):
        DraftWorker.conforming(worker)
    late = type("Late", (Honest,), {})
    late.forward = lambda self, batch: None  # type: ignore[attr-defined]  # as a test might patch it
    with pytest.raises(TypeError, match=r"^Late defines forward, which belongs to DraftWorker"):
        DraftWorker.conforming(late(CONFIG, quiet()))


# ---- clean-up


def fails_at(*seams: str) -> Callable[[str], None]:
    def at(seam: str) -> None:
        if seam in seams:
            raise ValueError(seam)

    return at


@pytest.mark.parametrize("seam", [None, *SEAMS, "stage", "sample", "drafted", "cleanup"])
@pytest.mark.parametrize("mode", ["eager", "warmup", "capture", "replay"])
def test_the_attention_is_always_put_back(
    build: Build, worker: Start, mode: str, seam: str | None
) -> None:
    """If this fails, the target of the next step runs with the drafter's layout."""
    armed = False

    def at(name: str) -> None:
        if name == "draft":
            drafting.append(list(ours.attention.rows))
        if armed and name == seam:
            raise ValueError(seam)

    drafting: list[list[int]] = []
    ours = worker(at, {"graphs": "on"})
    first = build(2, generations=[(7, 1, 3, 2), (8, 2, 4, 1)])
    ours.prepare(first)
    ours.forward(first)
    assert (drafting, ours.state().attention_rows) == ([[3, 3]], [3, 3])
    batch, armed = build(1, generations=[(7, 1, 5, 2), (8, 2, 5, 1)], step=1, mode=mode), True
    ours.prepare(batch)
    if seam is None:
        ours.forward(batch)
    else:
        with pytest.raises(ValueError, match=seam):
            ours.forward(batch)
    assert ours.state().attention_rows == ([3, 3] if mode in ("warmup", "capture") else [2, 2])


def test_an_error_while_cleaning_up_does_not_hide_the_first_one() -> None:
    """If this fails, people look for the wrong mistake."""
    batch = Batch(0, "eager", 0, (), (), array("q"), array("q"), None)
    with pytest.raises(ValueError, match="accept") as info:
        Honest(CONFIG, quiet(fails_at("accept", "cleanup"))).forward(batch)
    assert info.value.__notes__ == ["cleaning up after this failed as well: ValueError('cleanup')"]
    alone = Honest(CONFIG, quiet(fails_at("cleanup")))
    with pytest.raises(ValueError, match="cleanup"):
        alone.forward(batch)


# ---- pipelines and ranks


def test_a_pipeline_rank_that_is_not_the_last_skips_the_worker(build: Build) -> None:
    """If this fails, ranks without a drafter draft, or answer with shapes that nobody expects."""

    class First(Honest):
        last_in_pipeline = False

        def _forward_impl(self, batch: Batch) -> StepResult:
            raise AssertionError("there is no drafter here")

    batch = build(2, [(8, 2, 0, 2)], [(7, 1, 3, 2)])
    first = First(CONFIG, quiet(fails_at("cleanup")))
    first.attention.set_up(batch)
    result = first.forward(batch)
    assert first.attention.rows == [2, 3]  # as the target needs it: nothing was drafted
    shapes = [tuple(x.shape) for x in vars_of(result)]
    assert shapes == [(2, 3), (2,), (2, 2), (2, 3)]
    assert result.window_source == "uniform"
    assert result.new_tokens_lens.tolist() == [1, 1]


class Skipping(Honest):
    """A pipeline rank without a drafter."""

    last_in_pipeline = False


def check_sources(build: Build) -> None:
    """What a rank that skips the worker says of the step's verify windows."""
    skipping = Skipping(CONFIG, quiet())
    for contexts, windows, source in (
        ([], None, "uniform"),
        ([], (2, 1), "windows"),
        ([(8, 3, 0, 2)], None, "uniform"),
        ([(8, 3, 0, 2)], (2, 1), "snapshot"),
    ):
        batch = build(3, contexts, [(7, 1, 3, 2), (9, 2, 3, 1)], windows=windows)
        assert skipping.forward(batch).window_source == source


def test_a_rank_that_skips_the_worker_publishes_the_steps_window_source(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, pipeline ranks pack a ragged step by different windows.

    Planted: placeholders of a uniform step, whatever the step was.
    """
    check_sources(build)
    for always in ("uniform", "windows"):
        monkeypatch.setattr(contract, "window_source", lambda batch, told=always: told)
        with pytest.raises(AssertionError):
            check_sources(build)


def vars_of(result: StepResult) -> list[torch.Tensor]:
    names = ("new_tokens", "new_tokens_lens", "next_draft_tokens", "next_new_tokens")
    return [getattr(result, name) for name in names]


@pytest.mark.parametrize("seam", [None, "accept", "stage", "publish", "cleanup"])
def test_a_rank_crosses_every_stage_once_whatever_happens(
    build: Build, worker: Start, seam: str | None
) -> None:
    """If this fails, the peers of a rank that fails wait for it for ever."""
    crossed: list[tuple[int, int, list[int]]] = []
    seen: list[str] = []

    def at(name: str) -> None:
        seen.append(name)
        if name == seam and seen.count(name) == (2 if name == "stage" else 1):
            raise ValueError(name)

    def barrier(stage: int, rows: int, counts: Any) -> None:
        crossed.append((stage, rows, list(counts)))

    config = Config(3, 8, 2, 4)
    ours = DSparkWorker(config, torch.device("cpu"), quiet(at, barrier=barrier), read_options())
    batch = build(2, generations=[(7, 1, 3, 2)], rank_rows=(3, 0, 9))
    ours.prepare(batch)
    if seam is None:
        ours.forward(batch)
    else:
        with pytest.raises(ValueError, match=seam):
            ours.forward(batch)
    own = {"accept": (1, 1), "stage": (3, 1)}.get(str(seam), (3, 3))
    assert crossed == [(stage, own[stage], [3, 1, 9]) for stage in (0, 1)]
