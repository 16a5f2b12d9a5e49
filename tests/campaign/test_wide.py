"""Cases with one size that is large: they find what is right as long as everything is small."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import MODEL, draftproof

from draftproof.fuzz.campaign.chunks import mixed_case
from draftproof.fuzz.cases import Subject, seeded_case
from draftproof.fuzz.commands.check import make_case
from draftproof.fuzz.coverage.catalogue import CATALOGUE
from draftproof.fuzz.coverage.observe import observe
from draftproof.fuzz.driving.wide import BEHIND, WIDE, WIDE_EVERY, wide_case
from draftproof.sim.divergence import Divergence
from draftproof.sim.loading import load

SMALL_ONLY = Path(__file__).parent / "data" / "small_only.py"
ENOUGH = 6 * len(WIDE)
"""Wide cases of a `draftproof check` as it is by default, and somewhat more."""

FAULTS = {
    "block": "NinthDraftUnseen",
    "requests": "ThirtyThirdRowEmpty",
    "window": "WindowCut",
    "stages": "SixthStageUnwritten",
    "sampled": "FirstTileSampled",
    "guided": "SecondWordIgnored",
    "position": "TableEnds",
}


def found(subject: Subject, seed: int, most: int) -> str | None:
    """What is large in the first wide case that fails."""
    for index in range(most):
        try:
            subject.judge(wide_case(seed, index))
        except Divergence:
            return tuple(WIDE)[index % len(WIDE)]
    return None


@pytest.mark.parametrize("large", WIDE)
def test_what_is_wrong_at_a_large_size_is_found_there_alone(large: str) -> None:
    """If this fails, what only a large size brings out is not looked for, or found by chance."""
    subject = Subject(load(f"{SMALL_ONLY}:{FAULTS[large]}"))
    assert [found(subject, seed, ENOUGH) for seed in (0, 1)] == [large, large]
    for index in range(15):
        subject.judge(seeded_case(0, index))


def test_the_worker_is_right_at_every_size() -> None:
    """If this fails, wide cases raise false alarms, or the worker is wrong at large sizes."""
    assert found(Subject(load("draftproof.gpu.worker:make")), 0, ENOUGH) is None


def test_wide_cases_are_what_they_say() -> None:
    """If this fails, a size went back to small ones, and nobody heard of it."""
    points = [f"size/{name}" for name in WIDE if name != "position"]
    hits = {name for index in range(ENOUGH) for name in observe(wide_case(0, index)).hits}
    assert {*points, "position/beyond 131072"} <= hits
    assert hits <= CATALOGUE.keys()  # lengths of long blocks are no points of their own
    small = {name for index in range(200) for name in observe(seeded_case(0, index)).hits}
    assert not {*points, "position/beyond 131072"} & small


def test_a_wide_case_is_the_same_every_time_and_plays_again() -> None:
    """If this fails, a trace of a wide case is not what failed."""
    for index in range(len(WIDE)):
        first, second = wide_case(3, index), wide_case(3, index)
        assert (first.config, first.events) == (second.config, second.events)
        assert first.events != wide_case(4, index).events


@pytest.mark.parametrize(("campaign", "plain"), [(make_case, seeded_case), (mixed_case, None)])
def test_one_case_in_sixteen_is_wide(campaign: object, plain: object) -> None:
    """If this fails, `draftproof check` or `draftproof fuzz` keeps to small sizes."""
    assert callable(campaign)
    for turn in (0, 1, 5):
        index = turn * WIDE_EVERY + BEHIND
        assert campaign(1, index).events == wide_case(1, turn).events
        if callable(plain):
            assert campaign(1, index + 1).events == plain(1, index + 1).events


def test_check_finds_it_and_the_trace_fails_again(tmp_path: Path) -> None:
    """If this fails, a wide case fails in a campaign and nowhere else."""
    fault = f"{SMALL_ONLY}:NinthDraftUnseen"
    done = draftproof("check", "--implementation", fault, "--examples", 16, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "FAILED in case 7;" in done.stdout
    (small,) = [path for path in (tmp_path / "traces").iterdir() if "whole" not in path.name]
    assert draftproof("replay", small, cwd=tmp_path).returncode == 1
    done = draftproof("check", "--implementation", MODEL, "--examples", 16, cwd=tmp_path)
    assert done.returncode == 0
