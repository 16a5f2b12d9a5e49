"""Does sampled decoding keep the target's law? Measured, with what the measurement can find.

    python -m draftproof.fuzz.lossless               the table of all settings, as Markdown
    python -m draftproof.fuzz.lossless --write F     the same, into a file

Tokens of one setting are compared with independent draws from the target's law by chi-square: one
by one; in pairs that share no token; and apart where a step was given fewer drafts than it tests.
How often a draft passes is compared with the sum of min(q, p). All tests together say "wrong" of a
worker that is right in one of a million worlds; here the world is fixed by its seeds.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from draftproof.fuzz.defects.catalogue import CATALOGUE, Defect
from draftproof.fuzz.lossless.chi_square import Fit, fit
from draftproof.fuzz.lossless.decoding import (
    BLOCK,
    ROWS,
    Emitted,
    Pair,
    Setting,
    alike,
    decode,
    pairs,
    settings,
)
from draftproof.sim.loading import load
from draftproof.sim.lockstep import MakeWorker

WORKER = "draftproof.gpu.worker:make"
TOKENS = 200_000
STEPS = 2_000
"""How many steps two backends must do alike."""

FAMILY = 1e-6
"""How likely all tests of a table together are to fail a worker that is right."""

LAW = ("single", "pairs", "grown")
"""The tests of the output's law; the others are of how often drafts pass."""

DEFECTS = tuple(
    d
    for d in CATALOGUE.values()
    if ".sampling:" in (d.implementation or "") and d.name != "half-precision"
)
"""The planted defects that change the law of the output; rounding changes it by too little."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One setting's tests by their names."""

    setting: Setting
    steps: int
    fits: Mapping[str, Fit]

    def failed(self, least: float) -> list[str]:
        """The tests of the law whose p is below this."""
        return [name for name in LAW if name in self.fits and self.fits[name].p < least]


def measure(setting: Setting, make: MakeWorker, tokens: int = TOKENS) -> Measured:
    """Decode so many tokens, and test them."""
    emitted = decode(setting, make, tokens)
    fits = _fits(setting, emitted)
    return Measured(setting, emitted.steps, {name: fits[name] for name in checks(setting)})


def checks(setting: Setting) -> list[str]:
    """The names of a setting's tests."""
    names = ["single", "pairs"] if setting.draft_len is not None else list(LAW)
    drafts = BLOCK if setting.draft_len is None else setting.draft_len
    return names + [f"passed {k}" for k in range(drafts) if setting.pair.p is not None]


def least_p(chosen: Sequence[Setting]) -> float:
    """The p below which one of all these settings' tests fails (Bonferroni)."""
    return FAMILY / sum(len(checks(setting)) for setting in chosen)


def _fits(setting: Setting, emitted: Emitted) -> dict[str, Fit]:
    pair, size = setting.pair, range(len(setting.pair.q))
    single = Counter(token for row in emitted.rows for token in row)
    grown = Counter(emitted.grown)
    twos = Counter(two for row in emitted.rows for two in zip(row[::2], row[1::2], strict=False))
    both = list(product(size, size))
    fits = {
        "single": fit([single[x] for x in size], pair.q),
        "grown": fit([grown[x] for x in size], pair.q),
        "pairs": fit([twos[two] for two in both], [pair.q[x] * pair.q[y] for x, y in both]),
    }
    for k in range(BLOCK):
        share, passed, tested = pair.acceptance(k), emitted.passed[k], emitted.tested[k]
        if share is not None:
            fits[f"passed {k}"] = fit([passed, tested - passed], [share, 1 - share])
    return fits


# The table


def table(chosen: Sequence[Setting], make: MakeWorker, tokens: int) -> tuple[list[str], bool]:
    """A line for each setting, and whether all of its tests passed."""
    least, lines, fine = least_p(chosen), [], True
    for setting in chosen:
        measured = measure(setting, make, tokens)
        fine = fine and all(found.p >= least for found in measured.fits.values())
        lines.append(line(measured))
    return lines, fine


def line(measured: Measured) -> str:
    """A row of the table."""
    setting, fits = measured.setting, measured.fits
    pair, grown, first = setting.pair, fits.get("grown"), fits.get("passed 0")
    acceptance = pair.acceptance(0)
    passed = [found.p for name, found in fits.items() if name.startswith("passed")]
    cells = [
        pair.name,
        str(len(pair.q)) if pair.d2t is None else f"{len(pair.q)}, {len(pair.d2t)}",
        setting.schedule,
        f"{fits['single'].count:,}",
        f"{measured.steps:,}",
        f"{fits['single'].p:.2g}",
        f"{fits['pairs'].p:.2g}",
        f"{grown.p:.2g} ({grown.count:,})" if grown else "",
        f"{acceptance:.4f}" if first and acceptance is not None else "",
        f"{min(passed):.2g}" if passed else "",
    ]
    return f"| {' | '.join(cells)} |"


def first_failure(
    make: MakeWorker, chosen: Sequence[Setting], tokens: int
) -> tuple[Measured, str] | None:
    """The first setting in which a test of the law fails, and the test that fails worst."""
    least = least_p(chosen)
    for setting in chosen:
        measured = measure(setting, make, tokens)
        failed = measured.failed(least)
        if failed:
            return measured, min(failed, key=lambda name: measured.fits[name].p)
    return None


def defect_lines(chosen: Sequence[Setting], tokens: int, device: str) -> Iterator[str | None]:
    """A row for each planted defect; None for one that was not found."""
    for defect in DEFECTS:
        found = first_failure(_make(defect, device), chosen, tokens)
        if found is None:
            yield None
            continue
        measured, name = found
        where = f"{measured.setting.pair.name}, {measured.setting.schedule}"
        yield f"| {defect.name} | {defect.sentence} | {where} | {name} | {_tiny(measured, name)} |"


def _make(defect: Defect, device: str) -> MakeWorker:
    assert defect.implementation is not None
    return load(defect.implementation, device)


def _tiny(measured: Measured, name: str) -> str:
    p = measured.fits[name].p
    return f"{p:.0e}" if p > 1e-300 else "< 1e-300"


def backends(chosen: Sequence[Pair], steps: int, device: str) -> tuple[str, bool]:
    """Eager and Triton side by side, each pair for its share of the steps: a line, and whether
    they are alike.
    """
    share = -(-steps // len(chosen))
    one, other = (load(WORKER, device, {"kernels": name}) for name in ("eager", "triton"))
    done = sum(alike(pair, one, other, share) for pair in chosen)
    whole = share * len(chosen)
    return f"Eager and Triton are alike, token for token, in {done:,} of {whole:,} steps.", (
        done == whole
    )


def page(
    lines: Sequence[str], found: Sequence[str], compared: str, chosen: Sequence[Setting]
) -> str:
    """The whole page, as it stands in `docs/lossless.md`."""
    text = f"""# Sampled decoding keeps the target's law

Made by `make lossless`; what is measured, and how, is said in `fuzz/lossless/law.py` and
`fuzz/lossless/decoding.py`.

{ROWS} rows decode at once, each by its own random numbers (semantics, section 6), K = {BLOCK}. The
target's law q and the drafter's p are drawn at random, p for each position of a block, and know no
context; where it says "exact", p is the exact drafter's own (section 19). V: tokens of the target,
and of the drafter if it has fewer. A mixed schedule takes any r from 0 to {BLOCK}; in it one step
in three is all-greedy, where whoever runs the target draws its tokens from q and drafts are argmax.
Cells with an expectation under 10 are merged.

The columns `single`, `pairs` (no two of which share a token) and `grown` (tokens behind the drafts
of a step that was given fewer than it tests) are p-values of chi-square tests against q; `passed`
is the lowest p-value of how often drafts pass, whose chance is the sum of min(q, p), shown for the
first draft. A test fails below {least_p(chosen):.2g}: all of them together, below {FAMILY:.0e}.

| pair | V | schedule | tokens | steps | single | pairs | grown (tokens) | sum min(q, p) | passed |
|---|---|---|---|---|---|---|---|---|---|
"""
    text += "\n".join(lines) + "\n"
    if found:
        text += """
Planted defects, each with the first setting that fails, mixed ones first:

| defect | what is wrong | pair, schedule | test | p |
|---|---|---|---|---|
"""
        text += "\n".join(found) + "\n"
    return text + (f"\n{compared}\n" if compared else "")


def main(argv: Sequence[str] | None = None) -> int:
    """0 if every law is kept, every planted defect is found and backends are alike, else 1."""
    given = _arguments(argv)
    options = dict(text.split("=", 1) for text in given.option)
    chosen, tokens = settings(pairs()), given.tokens
    lines, fine = table(chosen, load(given.implementation, given.device, options), tokens)
    found: list[str | None] = []
    compared, same = "", True
    if given.implementation == WORKER and not options:
        found = list(defect_lines(chosen, tokens, given.device))
        compared, same = backends(pairs(), given.steps, given.device)
    text = page(lines, [row for row in found if row is not None], compared, chosen)
    if given.write is None:
        print(text, end="")
    else:
        given.write.write_text(text, "utf-8")
    return 0 if fine and same and None not in found else 1


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m draftproof.fuzz.lossless")
    parser.add_argument("--implementation", default=WORKER, metavar="M:F")
    parser.add_argument("-o", "--option", action="append", default=[], metavar="K=V")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tokens", type=int, default=TOKENS, metavar="N", help="per setting")
    parser.add_argument("--steps", type=int, default=STEPS, metavar="N", help="of two backends")
    parser.add_argument("--write", type=Path, metavar="F", help="put the page into this file")
    return parser.parse_args(argv)
