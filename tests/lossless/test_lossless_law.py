"""The law of sampled output, measured: a small version of `make lossless`, which CI can afford."""

from __future__ import annotations

from functools import cache
from itertools import chain, pairwise
from pathlib import Path

import pytest
import torch

from draftproof.fuzz.defects.catalogue import CATALOGUE
from draftproof.fuzz.lossless.decoding import (
    BLOCK,
    EXACT,
    GRID,
    ROWS,
    Decoding,
    Setting,
    decode,
    pairs,
    settings,
)
from draftproof.fuzz.lossless.law import (
    DEFECTS,
    FAMILY,
    LAW,
    TOKENS,
    Measured,
    checks,
    first_failure,
    least_p,
    line,
    measure,
)
from draftproof.gpu.rejection import Sampling, reject
from draftproof.sim.loading import load

PAGE = Path(__file__).parents[2] / "docs" / "lossless.md"
PAIRS = pairs()
FEW = 20_000
SMALL = [Setting(PAIRS[i], None) for i in (0, 1, 2, 4)] + [
    Setting(PAIRS[i], r) for i, r in ((3, 3), (6, 2), (5, 1), (7, 0))
]
WORKER = load("draftproof.gpu.worker:make")


@cache
def measured(setting: Setting) -> Measured:
    return measure(setting, WORKER, FEW)


@pytest.mark.parametrize("setting", SMALL, ids=lambda s: f"{s.pair.name}, {s.schedule}")
def test_the_law_is_the_targets(setting: Setting) -> None:
    """If this fails, sampled output is not what the target alone would say: I8."""
    fits, least = measured(setting).fits, least_p(SMALL)
    assert {name: found.p for name, found in fits.items() if found.p < least} == {}
    assert fits["single"].count >= FEW
    assert fits["pairs"].count >= (FEW // ROWS) // 2 * ROWS


def test_tokens_where_r_has_grown_are_tested_apart() -> None:
    """If this fails, few placeholders are tested, and a fault in them would drown."""
    for setting in SMALL[:4]:
        assert measured(setting).fits["grown"].count > FEW / 20


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda d: d.name)
def test_every_planted_defect_changes_the_law(defect: str) -> None:
    """If this fails, the measurement is blind to a fault that it is there for."""
    planted = CATALOGUE[getattr(defect, "name", defect)]
    assert planted.implementation is not None
    found = first_failure(load(planted.implementation), SMALL, FEW)
    assert found is not None
    at, name = found
    assert measured(at.setting).fits[name].p > least_p(SMALL), "so does the correct worker"


def test_the_six_defects() -> None:
    """If this fails, a defect of sampling is not planted in these tests."""
    assert [defect.name for defect in DEFECTS] == [
        "residual-not-clipped",
        "recovery-reuses-acceptance",
        "placeholders-against-stale-rows",
        "greedy-step-keeps-probabilities",
        "narrow-probabilities-unscattered",
        "argmax-drafts-with-soft-rows",
    ]


def test_stale_placeholders_show_where_r_has_grown() -> None:
    """If this fails, the tokens that are tested apart are not those behind placeholders."""
    make = load("draftproof.gpu.defects.sampling:PlaceholdersAgainstStaleRows")
    found = measure(SMALL[1], make, FEW)
    assert found.fits["grown"].p < 1e-100


# How often drafts pass


def test_acceptance_by_enumeration() -> None:
    """If this fails, a draft does not pass with probability sum of min(q, p).

    All drafts are tested with all numbers of a grid; u · p = q rejects, so that of as many numbers
    as there are parts, one passes too few for each token of which p is above q.
    """
    for pair in PAIRS[2:]:
        p, q = pair.wide(0), list(pair.q)
        assert p is not None
        parts, passed = GRID * 4, 0.0
        u = torch.arange(1, parts + 1).unsqueeze(1) / parts
        for token, mass in enumerate(p):
            rows = Sampling(
                target_probs=torch.tensor(q).expand(parts, 2, -1),
                proposed=torch.ones(parts, dtype=torch.int64),
                greedy=torch.zeros(parts, dtype=torch.bool),
                accept_uniforms=u,
                recover_uniforms=u.expand(parts, 2),
                draft_uniforms=u.unsqueeze(2),
            )
            drafts = torch.full((parts, 1), token)
            counts = reject(drafts, torch.tensor([[p]]).expand(parts, 1, -1), rows, None)[1]
            passed += mass * int((counts == 2).sum()) / parts
        expected = pair.acceptance(0)
        assert expected is not None
        assert expected - sum(p) / parts <= passed <= expected


def test_acceptance_is_measured_for_every_position() -> None:
    """If this fails, the share of drafts that pass is measured for few of them, or is no share."""
    emitted = decode(Setting(PAIRS[2], BLOCK), WORKER, FEW)
    assert [a <= b for a, b in zip(emitted.passed, emitted.tested, strict=True)] == [True] * BLOCK
    assert emitted.tested[1:] == emitted.passed[:-1]
    assert emitted.tested[0] == ROWS * (emitted.steps - 1)  # none in the first step
    passed = PAIRS[2].acceptance(1)
    assert passed is not None
    assert abs(emitted.passed[1] / emitted.tested[1] - passed) < 0.05


# The settings, and the page


def test_the_settings_are_what_the_page_says() -> None:
    """If this fails, fewer pairs are measured than promised, or some are degenerate."""
    everything = settings(PAIRS)
    assert len(PAIRS) - len(EXACT) == 10
    assert len(everything) == len(PAIRS) * (BLOCK + 2)
    assert {setting.draft_len for setting in everything} == {None, *range(BLOCK + 1)}
    assert [setting.draft_len for setting in everything[: len(PAIRS)]] == [None] * len(PAIRS)
    assert all(2 <= len(pair.q) <= 8 for pair in PAIRS)
    assert sum(pair.d2t is not None for pair in PAIRS) == 4
    for pair in PAIRS:
        for law in (pair.q, *(pair.p or ())):
            assert sum(law) == 1
            assert all(mass >= 0 and mass * GRID == int(mass * GRID) for mass in law)
        if pair.p is not None:
            assert all(pair.wide(k) != list(pair.q) for k in range(BLOCK))
    assert any(0 in pair.q for pair in PAIRS)
    assert any(0 in row for pair in PAIRS for row in pair.p or ())
    assert least_p(everything) * sum(len(checks(setting)) for setting in everything) == FAMILY


def test_a_mixed_schedule_mixes() -> None:
    """If this fails, a length, or a kind of step, never comes in a mixed schedule."""
    plan = Setting(PAIRS[2], None).plan()
    steps = [next(plan) for _ in range(200)]
    assert {r for r, _ in steps} == set(range(BLOCK + 1))
    assert 40 < sum(greedy for _, greedy in steps) < 90
    growth = [b > a for (a, _), (b, greedy) in pairwise(steps) if not greedy]
    assert sum(growth) > 30


def test_the_same_tokens_come_in_every_run() -> None:
    """If this fails, the page cannot be reproduced, and a test of this folder may be flaky."""
    one, two = (decode(SMALL[3], WORKER, 2_000) for _ in range(2))
    assert one == two
    assert len(set(chain.from_iterable(one.rows))) > 2


def test_rows_of_one_seed_differ() -> None:
    """If this fails, requests that share a seed say the same."""
    decoding = Decoding(PAIRS[2], WORKER)
    for _ in range(12):
        decoding.step(BLOCK, all_greedy=False)
    rows = decoding.emitted.rows
    assert all(rows[g][:8] != rows[g + 1][:8] for g in range(0, 20, 2))


@pytest.mark.parametrize("index", [2, 1], ids=["lent", "exact, narrow"])
def test_the_committed_page_is_reproduced(index: int) -> None:
    """If this fails, make the page again: make lossless."""
    found = measure(Setting(PAIRS[index], BLOCK), WORKER, TOKENS)
    assert line(found) in PAGE.read_text("utf-8").splitlines()


def test_the_page_shows_every_setting_and_every_defect() -> None:
    """If this fails, make the page again: make lossless."""
    rows = [row.split(" | ") for row in PAGE.read_text("utf-8").splitlines() if row[:2] == "| "]
    shown = [(row[0][2:], row[2]) for row in rows if len(row) == 10]
    assert shown[1:] == [(s.pair.name, s.schedule) for s in settings(PAIRS)]
    assert [row[0][2:] for row in rows if len(row) == 5][1:] == [d.name for d in DEFECTS]
    assert set(LAW) >= {row[3] for row in rows if len(row) == 5} - {"test"}
