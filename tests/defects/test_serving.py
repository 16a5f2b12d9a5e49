"""Reading the output of a run: it finds what is wrong with the output, and nothing else."""

from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from draftproof.fuzz.cases import Subject, seeded_case
from draftproof.fuzz.defects.catalogue import CATALOGUE
from draftproof.fuzz.defects.finding import find_seeded
from draftproof.fuzz.defects.serving import output, reading, serve
from draftproof.reference.model import Model
from draftproof.reference.vocabulary import Batch, Collaborators, Config, StepResult
from draftproof.sim.events import Step, Submit
from draftproof.sim.journal import Delivered, Departed, Fed
from draftproof.sim.loading import load
from draftproof.sim.run import Run, replay

MAKE = load("draftproof.gpu.worker:make")
CASES = 24


@pytest.mark.parametrize("subject", [Subject(MAKE), Subject(None)], ids=["worker", "engine"])
def test_the_output_of_what_is_sound_is_right(subject: Subject) -> None:
    """If this fails, a fault is said to show in the output that does not."""
    assert [output(subject, seeded_case(7, i)) for i in range(CASES)] == ["right"] * CASES


def test_the_worker_serves_as_the_model_does() -> None:
    """If this fails, what is read is not what this worker would have sent."""
    for i in range(CASES):
        run = seeded_case(7, i)
        told = [entry for entry in run.journal.entries if isinstance(entry, Delivered | Departed)]
        served = serve(Subject(MAKE), run).finish().journal.entries
        assert [entry for entry in served if isinstance(entry, Delivered | Departed)] == told


SMALL = Config(3, 8, 1, 2)
AUTONOMOUS = replace(SMALL, target="autonomous", vocab_size=3)

Change = Callable[[Any], Any]


def run_of(config: Config) -> Run:
    """Two requests, the first of which ends."""
    submits = Submit(0, prompt=3, limit=6), Submit(1, prompt=2, limit=40)
    return replay(config, (*submits, *(Step(accepts=(1, 2)),) * 5))


def change(run: Run, kind: type, index: int, changed: Change) -> None:
    """Change one entry of this kind."""
    entries = run.journal.entries
    place = [i for i, entry in enumerate(entries) if isinstance(entry, kind)][index]
    entries[place] = changed(entries[place])


def tokens(new: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Change:
    """Other tokens are sent."""
    return lambda entry: replace(entry, tokens=new(entry.tokens))


def elsewhere(entry: Fed) -> Fed:
    """The generations are fed one position too far."""
    rows = tuple(replace(row, position=row.position + 1) for row in entry.batch.generations)
    return replace(entry, batch=replace(entry.batch, generations=rows))


@pytest.mark.parametrize(
    ("kind", "index", "changed", "complaint"),
    [
        (
            Delivered,
            2,
            tokens(lambda t: (*t[:-1], 63 - t[-1])),
            "a token that the target did not say",
        ),
        (
            Delivered,
            2,
            tokens(lambda t: (t[0] + 1, *t[1:])),
            "a token behind a draft that the target",
        ),
        (Delivered, 2, tokens(lambda t: (*t, *t)), "a token behind a draft that the target"),
        (Delivered, -1, tokens(lambda t: (*t, *range(40))), "tokens behind the end"),
        (
            Delivered,
            -1,
            lambda entry: replace(entry, step=0, incarnation=1),
            "tokens behind the end",
        ),
        (Fed, 1, elsewhere, "an answer to a row that was fed elsewhere"),
        (Departed, 0, lambda entry: replace(entry, incarnation=2), "an output that ends too soon"),
    ],
)
def test_each_wrong_output_is_read(kind: type, index: int, changed: Change, complaint: str) -> None:
    """If this fails, an output is called right that is not."""
    run = run_of(SMALL)
    assert reading(run) is None
    change(run, kind, index, changed)
    assert (reading(run) or "").startswith(complaint)


def test_tokens_of_somebody_else_are_read() -> None:
    """If this fails, results may go to anybody."""
    first, second = Submit(0, prompt=3, limit=6), Submit(1, prompt=2, limit=6)
    events = (first, Step(), Step(), second, Step())
    run = replay(SMALL, events)
    assert reading(run) is None
    told = next(entry for entry in run.journal.entries if isinstance(entry, Delivered))
    run.journal.write(replace(told, request_id=2, incarnation=2))
    assert reading(run) == "tokens of somebody else"


def test_a_target_that_was_fed_something_else_is_not_believed() -> None:
    """If this fails, an engine may feed anything, as long as it sends what comes of it."""
    run = run_of(AUTONOMOUS)
    assert reading(run) is None

    def fed(entry: Fed) -> Fed:
        answers = array("q", [(token + 1) % 3 for token in entry.batch.target_tokens])
        return replace(entry, batch=replace(entry.batch, target_tokens=answers))

    change(run, Fed, 0, fed)
    change(run, Delivered, 0, tokens(lambda t: ((t[0] + 1) % 3,)))
    assert reading(run) == "a token that plain decoding does not give"


class Dying(Model):
    """Gives up in its third step."""

    def forward(self, batch: Batch) -> StepResult:
        if batch.step == 2:
            raise RuntimeError("out of slots")
        return super().forward(batch)


def test_an_engine_that_dies_is_seen() -> None:
    """If this fails, a crash counts as a fault that the output does not show."""

    def make(config: Config, lent: Collaborators) -> Dying:
        return Dying(config, lent)

    assert output(Subject(make), run_of(SMALL)) == "died"


@pytest.mark.parametrize(
    ("name", "verdicts"),
    [
        ("stop-ignored", {"wrong"}),
        ("ended-at-prompt-keeps-place", {"stuck", "right"}),
        ("nothing-to-verify-raw", {"wrong", "right"}),
        ("recovery-reuses-acceptance", {"law", "right"}),
        ("window-not-cleared", {"right"}),
        ("drafts-of-another", {"right"}),
    ],
)
def test_what_the_output_of_a_defect_says(name: str, verdicts: set[str]) -> None:
    """If this fails, docs/found.md says of a fault that it shows, or that it does not."""
    subject, seen = CATALOGUE[name].subject(), set()
    for seed in range(2):
        found = find_seeded(subject, seed)
        assert found is not None
        seen.add(output(subject, found.run))
    assert seen <= verdicts
    assert (seen == {"right"}) == (verdicts == {"right"})
