"""Every way to accept a row by every length, guided or not, beside a prompt or not.

A cell is hit by each row of a request in a step that is answered. Sampled rows have two lines, for
they are accepted by the strict rule or by rejection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from draftproof.reference.vocabulary import Batch, Config, GenerationRow

WAYS = {
    "greedy": "a greedy row",
    "strict": "a sampled row that is accepted by the strict rule",
    "rejection": "a sampled row that is accepted by rejection sampling",
}
LENGTHS = {
    "r = 0": "in a step without drafts",
    "r < K": "in a uniform step with some drafts",
    "r = K": "in a uniform step of whole blocks",
    "window 1": "in a ragged step, its anchor verified alone",
    "window < K + 1": "in a ragged step, some of its drafts verified",
    "window K + 1": "in a ragged step, its block verified whole",
}
GUIDED = {"free": "without a grammar", "guided": "with a grammar"}
BESIDE = {"alone": "no prompt in the batch", "mixed": "a prompt in the batch"}

UNREACHABLE = frozenset({("rejection", "guided")})
"""A target that gives logits keeps to the strict rule (semantics, section 19)."""


def _cells() -> Iterator[tuple[str, str]]:
    for way, length, guided, beside in product(WAYS, LENGTHS, GUIDED, BESIDE):
        if (way, guided) not in UNREACHABLE:
            told = f"{WAYS[way]} {LENGTHS[length]}, {GUIDED[guided]}, {BESIDE[beside]}"
            yield cell(way, length, guided, beside), told


def cell(way: str, length: str, guided: str, beside: str) -> str:
    """The name of a point."""
    return f"matrix/{way}, {length}, {guided}, {beside}"


CELLS: dict[str, str] = dict(_cells())
"""Every cell that can be hit, with a sentence."""


def about_rows(config: Config, batch: Batch) -> Iterator[str]:
    """The cells of a step that is answered and not undone, one for each generation of a request."""
    beside = "mixed" if batch.contexts else "alone"
    for g, row in enumerate(batch.generations):
        if row.incarnation:
            guided = "guided" if row.grammar else "free"
            yield cell(_way(batch, row), _length(config, batch, g), guided, beside)


def _way(batch: Batch, row: GenerationRow) -> str:
    if row.greedy:
        return "greedy"
    return "strict" if batch.target_probs is None else "rejection"


def _length(config: Config, batch: Batch, g: int) -> str:
    k = config.max_draft_len
    if batch.verify_lens is not None:
        window = batch.verify_lens[g]
        between = "window 1" if window == 1 else "window < K + 1"
        return "window K + 1" if window == 1 + k else between
    if not batch.draft_len:
        return "r = 0"
    return "r = K" if batch.draft_len == k else "r < K"


def table(hits: Mapping[str, int]) -> list[str]:
    """Lines of Markdown: how often each cell was hit."""
    columns = list(product(GUIDED, BESIDE))
    lines = [
        "| row | " + " | ".join(f"{guided}, {beside}" for guided, beside in columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    for way, length in product(WAYS, LENGTHS):
        names = [cell(way, length, guided, beside) for guided, beside in columns]
        told = [f"{hits.get(name, 0):,}" if name in CELLS else "" for name in names]
        lines.append(f"| {way}, {length} | {' | '.join(told)} |")
    return lines


PAGE = """# The matrix

How often each way to accept a row met each length, with a grammar and without, with a prompt in the
batch and without. `make matrix` runs the campaign and writes this page; a cell that is never hit
ends it with exit code 6. A cell is empty if it cannot be: with a grammar a row is accepted by the
strict rule (semantics, section 19).

{hit} of {all} cells were hit in {cases:,} cases of {steps:,} steps, which
`{implementation}` was checked in. A row of a request counts once for each step that was answered.

{table}

{legend}
"""


def page(hits: Mapping[str, int], cases: int, steps: int, implementation: str) -> str:
    """The page of the docs; implementation: what the cases were run with."""
    words = {**WAYS, **LENGTHS}
    return PAGE.format(
        hit=sum(name in hits for name in CELLS),
        all=len(CELLS),
        cases=cases,
        steps=steps,
        implementation=implementation,
        table="\n".join(table(hits)),
        legend="\n".join(f"* {word}: {told}" for word, told in words.items()),
    )
