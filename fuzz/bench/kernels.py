"""How far one step is from what memory allows: eager, Triton and replayed, on one device.

A step cannot be faster than its bytes move. `docs/bench.md` says which bytes those are; `needed`
counts them from the shapes of the step. How fast bytes move here is measured beside it, by a copy
too large for any cache. Ratios of the two do not depend on the machine's memory, so that machines
can be compared.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from statistics import median
from time import perf_counter, process_time
from typing import Any

from draftproof.fuzz.bench.figures import Figure
from draftproof.fuzz.bench.sizes import Sizes
from draftproof.fuzz.bench.turns import Rate, in_turns
from draftproof.reference.drafter import make_drafter
from draftproof.reference.vocabulary import (
    ROW_COMPONENTS,
    Batch,
    Collaborators,
    Config,
    ContextRow,
    GenerationRow,
    Mode,
)
from draftproof.sim.loading import find, load
from draftproof.sim.packing import hidden_rows
from draftproof.sim.shapes import listed

PART = "kernels"
WORKER = "draftproof.gpu.measured:make"
BLOCK = "draftproof.gpu.measured:make_block"
CHAIN = "draftproof.gpu.measured:make_chain"
MEBI = 2**20

NEEDS_A_GPU = (
    "kernels: Triton's own speed and graph replay need a GPU (--device cuda): here kernels are "
    "interpreted, at small sizes, and what that takes says nothing of a GPU; graphs, which would "
    "be recorded calls, are left out"
)
SETTINGS = {
    "eager": ("eager", "off"),
    "Triton": ("triton", "off"),
    "eager, replayed": ("eager", "on"),
    "Triton, replayed": ("triton", "on"),
}
"""What is compared: kernels, graphs."""

JOINED = {"Triton, joined": ("joined", "off"), "Triton, joined, replayed": ("joined", "on")}
"""Of the Markov chain too: K + 1 launches instead of 2 K."""


@dataclass(frozen=True, slots=True)
class Shape:
    """rows: requests at a time; copied: bytes of the copy; model: of a drafted block, fields of
    the draft model's shape; small: whether kernels can be interpreted at it within seconds.
    """

    rows: tuple[int, ...]
    window: int
    vocab: int
    copied: int
    model: dict[str, int]
    small: bool = False


K, STAGES = 5, 3
MODEL = {
    "captured_layers": 3, "streams": 4, "heads": 64, "head_dim": 512, "rope_head_dim": 64,
    "q_rank": 1024, "groups": 8, "o_rank": 1024, "ffn": 2048, "markov_rank": 256,
    "noise_token": 0, "block": K, "stages": STAGES,
}  # fmt: skip
SMALL = {
    "captured_layers": 1, "streams": 1, "heads": 2, "head_dim": 16, "rope_head_dim": 4,
    "q_rank": 8, "groups": 1, "o_rank": 8, "ffn": 16, "markov_rank": 16,
    "noise_token": 0, "block": K, "stages": STAGES,
}  # fmt: skip


SMALL_SHAPE = Shape((2,), 16, 512, 4 * MEBI, {**SMALL, "hidden": 32}, small=True)


def shapes_for(device: str, published: bool) -> list[Shape]:
    """Published sizes, on a CPU fewer requests and a narrower draft model; small ones on a CPU,
    for what is interpreted, and if that is all that is wanted.
    """
    rows, hidden, copied = ((8, 64), 4096, 1024) if device == "cuda" else ((8,), 1024, 256)
    large = Shape(rows, 128, 129_280, copied * MEBI, {**MODEL, "hidden": hidden})
    return [large] * published + [SMALL_SHAPE] * (device == "cpu" or not published)


def settings_for(kind: str, device: str, small: bool) -> dict[str, tuple[str, str]]:
    """What is compared of one kind of step, by the name of its row."""
    every = SETTINGS | JOINED if kind == MARKOV else SETTINGS
    if device != "cpu":
        return every
    here = {name: how for name, how in every.items() if how[1] == "off"}
    interpreted = {f"{name}, interpreted": how for name, how in here.items() if how[0] != "eager"}
    return {"eager": here["eager"]} | (interpreted if small else {})


def measure(sizes: Sizes, device: str) -> Iterator[list[Figure]]:
    """Every kind of step at every size, each in turns with a copy; one column at a time."""
    import torch

    if device == "cpu":
        print(NEEDS_A_GPU, file=sys.stderr, flush=True)
        torch.set_num_threads(1)  # whose time is measured
    for shape in shapes_for(device, sizes.published):
        for rows, (kind, make) in product(shape.rows, MAKERS.items()):
            settings = settings_for(kind, device, shape.small)
            steps = {name: make(shape, rows, device, *how) for name, how in settings.items()}
            column = f"{kind}, {rows} requests{', small' * (shape.small and sizes.published)}"
            yield list(_column(column, steps, _copy(device, shape.copied), device, sizes))


# What is measured


@dataclass(frozen=True, slots=True)
class Work:
    """Something to do on the device, and the bytes that it must move."""

    do: Callable[[], object]
    needed: int


def _copy(device: str, size: int) -> Work:
    """Every byte is read, and written elsewhere."""
    import torch

    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    return Work(lambda: target.copy_(source), 2 * size)


def _block(maker: str, shape: Shape, rows: int, device: str, kernels: str, graphs: str) -> Work:
    sizes = {**shape.model, "window": shape.window, "vocab": shape.vocab}
    block = find(maker)(sizes, rows, device, kernels, graphs == "on")
    return Work(block.run, block.moved)


def _step(sampled: bool, shape: Shape, rows: int, device: str, kernels: str, graphs: str) -> Work:
    config = Config(
        max_draft_len=K,
        window_size=shape.window,
        num_stages=STAGES,
        max_num_requests=rows,
        vocab_size=shape.vocab,
        use_rejection_sampling=sampled,
        drawn_uniforms=sampled,
        max_num_tokens=rows * max(shape.window, 1 + K),
        graph_batch_sizes=(rows,),
    )
    make = load(WORKER, device, {"kernels": kernels, "graphs": graphs})
    worker = make(config, Collaborators(lambda seam: None, make_drafter(config)))
    prompt = prompts(config)
    worker.prepare(prompt)
    worker.forward(prompt)
    batch = generations(config, "replay" if graphs == "on" else "eager")
    worker.prepare(batch)
    counts = listed(worker.forward(batch).new_tokens_lens)
    return Work(lambda: worker.forward(batch), needed(config, counts))


MARKOV = "Markov chain"
MAKERS: dict[str, Callable[..., Work]] = {
    "greedy step": partial(_step, False),
    "sampled step": partial(_step, True),
    "drafted block": partial(_block, BLOCK),
    MARKOV: partial(_block, CHAIN),
}


def prompts(config: Config) -> Batch:
    """A whole window for everybody."""
    rows, width = config.max_num_requests, config.window_size
    return Batch(
        step=0,
        mode="eager",
        draft_len=K,
        contexts=tuple(ContextRow(1 + g, 1 + g, g, 0, width) for g in range(rows)),
        generations=(),
        drafts=array("q"),
        target_tokens=array("q", [0] * rows),
        hidden=hidden_rows([(1 + g, 0, width) for g in range(rows)], 0),
    )


def generations(config: Config, mode: Mode) -> Batch:
    """A generation of everybody, of whose drafts 0 … K are accepted, in turns.

    They are made of token 0, which the target's law gives more than a drafter gives any, and of
    token 1, which it gives nothing.
    """
    rows, vocab, sampled = config.max_num_requests, config.vocab_size, config.drawn_uniforms
    drafts = [int(i >= g % (K + 1)) for g in range(rows) for i in range(K)]
    law = array("f", [0.75, 0.0, *[2.0**-8] * 64, *[0.0] * (vocab - 66)])
    return Batch(
        step=1,
        mode=mode,
        draft_len=K,
        contexts=(),
        generations=tuple(
            GenerationRow(1 + g, 1 + g, g, config.window_size, K, greedy=not sampled, seed=g)
            for g in range(rows)
        ),
        drafts=array("q", drafts),
        target_tokens=array("q", [0] * (rows * (1 + K))),
        hidden=hidden_rows([(1 + g, config.window_size, 1 + K) for g in range(rows)], 1),
        all_greedy=not sampled,
        target_probs=law * (rows * (1 + K)) if sampled else None,
    )


def needed(config: Config, counts: Sequence[int]) -> int:
    """Bytes that a step of generations with full windows must move; counts: tokens each got."""
    word, single, half = 8, 4, 2  # int64, float32, bfloat16
    rows, vocab = len(counts), config.vocab_size
    row = config.num_stages * ROW_COMPONENTS * half
    looked_at = K + 3  # drafts, slot, position, sequence slot
    # Proposed, greedy, seed (two words), incarnation; or the target's tokens.
    looked_at += 5 if config.use_rejection_sampling else 1 + K
    counters = 2 * (2 * word + 1)  # read and written
    results = (1 + K) + 1 + K + (1 + K) + 1  # as in StepResult, and the stamp of confidences
    total = rows * ((looked_at + results) * word + counters + K * single)
    total += rows * config.window_size * row  # visible rows
    total += sum(counts) * (ROW_COMPONENTS + row)  # accepted rows, read and stored
    if config.use_rejection_sampling:
        rejected = sum(n <= K for n in counts)
        total += (rows + rejected) * vocab * single  # q, and p, where the prefix ends
        total += rows * K * vocab * single  # the new p
    return total


# How it is measured


def _column(
    column: str, steps: dict[str, Work], copy: Work, device: str, sizes: Sizes
) -> Iterator[Figure]:
    ways: dict[str, Rate] = {
        name: _rate(work, device, sizes) for name, work in {"copy": copy, **steps}.items()
    }
    rates = in_turns(ways, sizes.repetitions)
    floor = {name: work.needed / median(rates["copy"]) for name, work in steps.items()}
    yield Figure(PART, "copy bandwidth", column, median(rates["copy"]) / 1e9, "GB/s")
    yield Figure(PART, "must move", column, steps["eager"].needed / MEBI, "MiB")
    yield Figure(PART, "at copy bandwidth", column, 1e6 * floor["eager"], "us")
    for name, work in steps.items():
        yield Figure(PART, name, column, 1e6 * work.needed / median(rates[name]), "us")
        times = median(a / b for a, b in zip(rates["copy"], rates[name], strict=True))
        yield Figure(PART, f"{name} / copy", column, times, "x")


def _rate(work: Work, device: str, sizes: Sizes) -> Rate:
    """Bytes per second, those that must move, over as many calls as fill the time."""
    wait, clock = _watch(device)

    def timed(calls: int) -> float:
        wait()
        start = clock()
        for _ in range(calls):
            work.do()
        wait()
        return clock() - start

    timed(3)  # kernels are compiled, memory is touched
    calls = max(1, min(1000, int(sizes.turn / max(timed(1), 1e-6))))
    return lambda number: calls * work.needed / timed(calls)


def _watch(device: str) -> tuple[Callable[[], Any], Callable[[], float]]:
    """How to wait for the device, and a clock: that of the processor, if the device is one.

    Of all threads: the interpreter multiplies matrices by numpy, which has some of its own.
    """
    if device == "cpu":
        return lambda: None, process_time
    import torch

    return torch.cuda.synchronize, perf_counter
