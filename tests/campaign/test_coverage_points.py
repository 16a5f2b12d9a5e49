"""Coverage of behaviour: what counts as a point, that each can be hit, and when it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as replace_struct

from draftproof.fuzz.campaign.corpus import Corpus
from draftproof.fuzz.campaign.minimal import distil, minimised, points
from draftproof.fuzz.cases import seeded_case
from draftproof.fuzz.coverage.catalogue import CATALOGUE
from draftproof.fuzz.coverage.observe import observe
from draftproof.fuzz.coverage.tally import Coverage
from draftproof.reference.vocabulary import Config
from draftproof.sim.events import AnyEvent, Cancel, Pause, Recompute, Step, Submit, Warmup
from draftproof.sim.run import replay
from draftproof.sim.traces import Trace, load

PINNED = Path(__file__).parent.parent / "data" / "points" / "coverage"
CONFIG = Config(2, 3, 1, 2)


def hits(*events: AnyEvent, config: Config = CONFIG) -> set[str]:
    return set(observe(replay(config, events)).hits)


def test_every_point_is_hit_by_a_pinned_schedule() -> None:
    """If this fails, the catalogue names something that cannot happen, or cannot any more.

    Traces for new points: python -m draftproof.fuzz.campaign.pinned --corpus tests/data/points
    """
    hit = {name for path in PINNED.glob("*.jsonl") for name in points(load(path))}
    assert [name for name in CATALOGUE if name not in hit] == []


def test_nothing_is_hit_that_the_catalogue_does_not_name() -> None:
    """If this fails, a report counts points that nobody promised."""
    seen = {name for index in range(60) for name in observe(seeded_case(5, index)).hits}
    assert seen - CATALOGUE.keys() == set()


TWO = (Submit(0, prompt=2, limit=30), Submit(1, prompt=2, limit=30))


@pytest.mark.parametrize(
    ("events", "point"),
    [
        ((*TWO, Cancel(0)), "cancel/while waiting"),
        ((Submit(0, prompt=4, limit=9), Step(chunk=1), Cancel(0)), "cancel/while prefilling"),
        ((*TWO, Step(), Step(), Cancel(0)), "cancel/before delivery"),
        ((*TWO, Step(), Step(), Pause(0), Step(), Cancel(0)), "cancel/while left out"),
        ((*TWO, Step(), Step(), Recompute(0)), "recompute/while decoding"),
        ((*TWO, Step(), Step(draft_len=1), Step(draft_len=2)), "length/1->2"),
        ((*TWO, Step(), Step(accepts=(2,))), "accepted/2 of 2"),
        ((TWO[0], Step(), Step(), Step(draft_len=0), Step()), "length/zero between positive"),
        ((*TWO, Step(), Warmup(), Cancel(0)), "warm-up/between step and cancel"),
        ((*TWO, Step(fault="draft")), "fault/draft in a prompt step"),
        ((*TWO, Step(), Step(fault="seed")), "fault/seed in a decoding step"),
        ((Step(),), "batch/idle"),
        ((*TWO, Step(), Step(), Step(accepts=(2,))), "window/wraps in a step"),
        (
            (*TWO, Step(), Cancel(0), Submit(2, limit=3, same_id=True), Step()),
            "id/back at once",
        ),
    ],
)
def test_a_point_is_hit_by_what_it_says(events: tuple[AnyEvent, ...], point: str) -> None:
    """If this fails, a point is hit by something else, and its silence means nothing."""
    assert point in hits(*events)
    assert point not in hits(*events[:-1])


ZERO = Step(draft_len=0)
TURN = (*TWO, Step(), Step(), ZERO, Cancel(1), Submit(2, prompt=2, limit=30), ZERO)
"""Drafts, none; one of two leaves; another one has its slot in the second step without drafts."""
OF_A_REQUEST = (*TURN, Warmup(fault="seed"), Step())
OF_A_SERVER = (*TURN, Step(draft_len=0, fault="seed"), Submit(3, limit=30), Step(), Step())


@pytest.mark.parametrize(
    ("events", "point", "needed"),
    [
        (OF_A_REQUEST, "sequence/of a request", (3, 4, 5, 6, 7, 8, 9)),
        (OF_A_SERVER, "sequence/of a server", (3, 4, 5, 8, 9, 10, 11)),
    ],
)
def test_a_sequence_is_hit_by_all_that_it_names(
    events: tuple[AnyEvent, ...], point: str, needed: tuple[int, ...]
) -> None:
    """If this fails, drafts that come back after an empty while stand for the hostile one."""
    assert point in hits(*events)
    lacking = [i for i in range(len(events)) if point not in hits(*events[:i], *events[i + 1 :])]
    assert tuple(lacking)[-len(needed) :] == needed


def test_a_sequence_is_told_by_whom_it_befalls() -> None:
    """If this fails, guided and sampled requests count as having been through it untried."""
    plain = hits(*OF_A_REQUEST)
    names = {f"sequence/of a {kind} request" for kind in ("sampled", "guided")}
    assert not plain & names
    asked = replace_struct(TWO[0], sampled=True, grammar=2, penalties=4)
    guided = replace(CONFIG, target_logits=True, vocab_size=8)
    assert hits(asked, *OF_A_REQUEST[1:], config=guided) >= names


def test_a_slot_that_changes_hands_at_once_is_not_one_that_waited() -> None:
    """If this fails, reuse in the very next step is not told from reuse later."""
    one = replace(CONFIG, max_num_requests=1)
    first, second = Submit(0, prompt=2, limit=9), Submit(1, prompt=2, limit=9)
    at_once = hits(first, second, Step(), Cancel(0), Step(), config=one)
    later = hits(first, Step(), Cancel(0), Step(), second, Step(), config=one)
    assert {"slot/reused at once", "slot/reused later"} & at_once == {"slot/reused at once"}
    assert {"slot/reused at once", "slot/reused later"} & later == {"slot/reused later"}


def test_coverage_tells_how_often_and_first_when() -> None:
    """If this fails, the report's numbers are wrong."""
    coverage = Coverage()
    quiet = observe(replay(CONFIG, [*TWO, Step(), Step()]))
    ragged = observe(replay(CONFIG, [*TWO, Step(), Step(accepts=(1,)), Step(accepts=(1,))]))
    coverage.add(quiet)
    coverage.add(ragged)
    assert (coverage.cases, coverage.steps) == (2, 5)
    assert (coverage.hits["accepted/1 of 2"], coverage.first["accepted/1 of 2"]) == (4, 3)
    assert coverage.record()["points"]["accepted/1 of 2"] == {"hits": 4, "first": 3}
    assert "cancel/while waiting" in coverage.missing()
    assert any(line.startswith("never hit") for line in coverage.lines())


def test_coverage_is_the_same_however_runs_are_cut_into_pieces() -> None:
    """If this fails, a report depends on how many workers made it."""
    seen = [observe(seeded_case(2, index)) for index in range(9)]
    whole, left, right = Coverage(), Coverage(), Coverage()
    for one in seen:
        whole.add(one)
    for one in seen[:4]:
        left.add(one)
    for one in seen[4:]:
        right.add(one)
    left.extend(right)
    assert left == whole


def test_a_distilled_corpus_covers_the_same_with_less(tmp_path: Path) -> None:
    """If this fails, distilling loses coverage, or keeps what is of no use."""
    runs = [seeded_case(1, index) for index in range(12)]
    traces = [Trace(config=run.config, events=tuple(run.events[:25])) for run in runs]
    corpus = Corpus(tmp_path)
    for trace in traces:
        corpus.keep(trace)
    kept = distil(corpus.covering(), points)
    small = minimised(kept, tries=20, cover=points)

    def all_of(some: list[Trace]) -> set[object]:
        return {name for trace in some for name in points(trace)}

    assert all_of(small) >= all_of(kept) == all_of(traces)
    assert distil([*reversed(traces)], points) == kept
    for index in range(len(kept)):
        assert all_of(kept[:index] + kept[index + 1 :]) < all_of(kept)
    assert sum(len(t.events) for t in small) < sum(len(t.events) for t in kept)


def test_the_committed_campaign_has_hit_every_point() -> None:
    """If this fails, make its report again: docs/campaigns.md, under --goal, says how."""
    docs = Path(__file__).parents[2] / "docs"
    report = json.loads((docs / "campaign.json").read_text())
    assert set(report["points"]) == set(CATALOGUE)
    assert all(point["hits"] for point in report["points"].values())
    page = (docs / "campaigns.md").read_text()
    for first in sorted(point["first"] for point in report["points"].values())[-3:]:
        assert f"within {first:,}" in page
    assert f"{report['steps']:,} steps" in page
