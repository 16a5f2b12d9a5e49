"""`draftproof faults` and `draftproof check --ranks`: what they say, and how they end."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from command import MODEL, draftproof

from draftproof.fuzz.ranks.cases import RankSubject
from draftproof.fuzz.ranks.defects import RANK_CATALOGUE
from draftproof.fuzz.ranks.faults import Table, markdown, run_campaign
from draftproof.fuzz.ranks.measuring import measure_ranks
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import SEAMS, Collaborators, Config
from draftproof.sim.faults import LATE, OPTIONAL, SITES
from draftproof.sim.traces import load

CROSSING = "draftproof.gpu.defects.crossing"


def test_a_campaign_injects_every_fault_and_compares_behind_it() -> None:
    """If this fails, some fault is never tried, or nothing is looked at behind it."""
    table = run_campaign(RankSubject(Model), 2, 3_000)
    assert len(table.missed) < len(SITES) // 8  # at full length none may be
    assert table.behind.later.total() > 300
    assert table.behind.undone.total() > 50
    assert table.behind.peers.total() > 100
    assert sorted(table.worlds) == [1, 2, 3, 4]
    page = markdown(table, "this", {})
    rows = re.findall(r"^\| (\w+) \| (\w+) \| ([\d,]+) \|", page, re.M)
    assert [(place, kind) for place, kind, _ in rows] == [*SITES, LATE]
    assert sum(int(count.replace(",", "")) for *_, count in rows) == table.happened.total()
    assert table.faults == table.happened.total() - table.happened[LATE]
    assert table.happened[LATE] > 300
    assert table.behind.peers[LATE] > 300


def seams_alone(config: Config, lent: Collaborators) -> Model:
    """The model, without the optional seams."""

    def at(seam: str) -> None:
        if seam in SEAMS:
            lent.at(seam)

    return Model(config, replace(lent, at=at))


def test_a_fault_at_a_seam_that_is_never_called_did_not_happen() -> None:
    """If this fails, a table says that faults were survived which the worker never met."""
    table = run_campaign(RankSubject(seams_alone), 2, 800)
    assert table.faults_without_seam > 10
    assert table.faults > 20
    behind = table.behind
    for counted in (table.happened, behind.later, behind.undone, behind.peers):
        assert {place for place, _ in counted} & {*OPTIONAL} == set()


def test_a_fault_that_never_came_is_missed() -> None:
    """If this fails, a campaign that tried next to nothing passes."""
    assert Table().missed == [*SITES, LATE]


def test_a_campaign_that_is_too_short_ends_with_exit_code_6(tmp_path: Path) -> None:
    """If this fails, nobody hears that most faults were not tried."""
    done = draftproof("faults", "--implementation", MODEL, "--steps", 50, cwd=tmp_path)
    assert done.returncode == 6
    assert "never happened: " in done.stdout
    assert "nothing wrong" in done.stdout


def test_ranks_that_disagree_are_saved_and_shrunk(tmp_path: Path) -> None:
    """If this fails, a deadlock of ranks cannot be replayed."""
    faulty = f"{CROSSING}:ZeroStepDoesNotCross"
    done = draftproof("check", "--ranks", 3, "--implementation", faulty, cwd=tmp_path)
    assert done.returncode == 1
    assert "never arrives" in done.stdout
    minimal = next((tmp_path / "traces").glob("*-minimal.jsonl"))
    trace = load(minimal)
    assert (trace.ranks, trace.failure) == (2, ("deadlock", "I12"))
    again = draftproof("replay", minimal, cwd=tmp_path)
    assert again.returncode == 1
    assert "waits at stage 0 of the draft MoE" in again.stdout


def test_a_correct_worker_passes_on_ranks(tmp_path: Path) -> None:
    """If this fails, checking on several ranks is of no use."""
    done = draftproof(
        "check", "--ranks", 2, "--implementation", MODEL, "--examples", 5, cwd=tmp_path
    )
    assert done.returncode == 0
    assert re.search(r"steps            \d+ on 2 ranks, \d+ barrier calls", done.stdout)


def test_the_record_of_a_defect_of_ranks() -> None:
    """If this fails, the table of planted defects says less than was measured."""
    record = measure_ranks(RANK_CATALOGUE["global-batch-size"], [0])
    assert record["found"]
    assert record["minimal_events"]["0"] <= 4
    assert record["output"] == {"0": "stuck"}
    assert record["seeded"]["0"] > 0


def factory(folder: Path, condition: str) -> str:
    """The model, from a factory that refuses some configurations."""
    (folder / "picky.py").write_text(
        "from draftproof.reference.model import Model\n"
        "from draftproof.reference.vocabulary import ConfigError\n"
        "def make(config, device, collaborators, **options):\n"
        f"    if {condition}:\n"
        "        raise ConfigError('not this one')\n"
        "    return Model(config, collaborators)\n"
    )
    return "picky.py:make"


def test_a_worker_may_refuse_configurations_on_ranks(tmp_path: Path) -> None:
    """If this fails, a worker that supports less than all is said to have diverged."""
    some = factory(tmp_path, "config.max_draft_len % 2")
    for command, code in (
        (("check", "--ranks", 2, "--examples", 12), 0),
        (("faults", "--steps", 400), 6),  # too short to inject every fault
        (("ranks", "--processes", 2, "--examples", 6), 0),
    ):
        done = draftproof(*command, "--implementation", some, cwd=tmp_path)
        assert done.returncode == code, done.stdout + done.stderr
        assert "cases that the factory refused" in done.stdout


def test_one_that_refuses_them_all_is_no_worker(tmp_path: Path) -> None:
    """If this fails, a campaign that checked nothing passes, or says that ranks disagree."""
    none = factory(tmp_path, "True")
    for command in (("check", "--ranks", 2), ("faults",), ("ranks", "--examples", 2)):
        done = draftproof(*command, "--implementation", none, cwd=tmp_path)
        assert done.returncode == 4, done.stdout + done.stderr
        assert "the factory refused each of" in done.stderr
