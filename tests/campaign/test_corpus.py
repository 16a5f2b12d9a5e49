"""The corpus: names, merging, and that no kill leaves it torn."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from draftproof.fuzz.campaign.corpus import Corpus, name_of
from draftproof.reference.config import checked
from draftproof.reference.vocabulary import Config
from draftproof.sim.errors import FileError, UsageError
from draftproof.sim.events import AnyEvent, Step, Submit
from draftproof.sim.traces import Trace, load

CONFIG = checked(Config(2, 3, 1, 2))


def trace(
    *events: AnyEvent, failure: tuple[str, str] | None = None, implementation: str = ""
) -> Trace:
    return Trace(config=CONFIG, events=events, failure=failure, implementation=implementation)


WRITER = """
import sys
from pathlib import Path
from draftproof.fuzz.campaign.corpus import Corpus
from draftproof.reference.vocabulary import Config
from draftproof.sim.events import Step, Submit
from draftproof.sim.traces import Trace
corpus, config = Corpus(Path(sys.argv[1])), Config(2, 3, 1, 2)
print("ready", flush=True)
number = 0
while True:
    events = (Submit(number), *[Step()] * (number % 50))
    corpus.keep(Trace(config=config, events=events))
    sizes = Step(), *[Step()] * (1000 - number % 1000)
    corpus.keep_failing(Trace(config=config, events=sizes, failure=("comparison", "windows")))
    number += 1
"""


def test_a_kill_at_any_moment_leaves_a_corpus_that_can_be_read(tmp_path: Path) -> None:
    """If this fails, a night's work is lost with the process that did it."""
    moments, written = random.Random(0), 0
    for _ in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            time.sleep(0.05 + moments.random() / 5)
            writer.kill()
        for path in tmp_path.glob("*/*.jsonl"):
            assert path.stem == name_of(load(path))  # whole, or it could not be read
            written += 1
        corpus = Corpus(tmp_path)  # whoever comes next finds nothing but traces
        files = {path for path in tmp_path.rglob("*") if path.is_file()}
        assert len(files) == len(corpus.covering()) + len(corpus.failing())
    assert written > 12


def test_of_failures_alike_the_smallest_is_kept_in_any_order(tmp_path: Path) -> None:
    """If this fails, a corpus depends on who was first, or keeps the same failure twice."""
    alike = [trace(*[Step()] * n, failure=("comparison", "windows")) for n in (3, 1, 2)]
    other = trace(Step(), failure=("comparison", "ctx_len"))
    elsewhere = trace(Step(), failure=("comparison", "windows"), implementation="a:b")
    orders: Sequence[Sequence[Trace]] = (alike, alike[::-1])
    for number, order in enumerate(orders):
        corpus = Corpus(tmp_path / str(number))
        for one in (*order, other, elsewhere):
            corpus.keep_failing(one)
        kept = corpus.failing()
        assert len(kept) == 3
        assert {len(t.events) for t in kept if t.failure == ("comparison", "windows")} == {1}


def test_a_shrunk_failure_takes_the_place_of_the_whole_one(tmp_path: Path) -> None:
    """If this fails, a shrunk trace of as many events is thrown away."""
    corpus = Corpus(tmp_path)
    whole = trace(Step(accepts=(2,)), failure=("comparison", "windows"))
    shrunk = trace(Step(accepts=(2,), rotate=1), failure=("comparison", "windows"))
    corpus.keep_failing(whole)
    corpus.keep_failing(shrunk, instead=whole)
    assert corpus.failing() == [shrunk]


def test_a_shrunk_failure_does_not_take_the_place_of_a_smaller_one(tmp_path: Path) -> None:
    """If this fails, each campaign may leave a larger trace than the one before."""
    corpus = Corpus(tmp_path)
    whole, shrunk, there = (trace(*[Step()] * n, failure=("hang", "timeout")) for n in (5, 3, 2))
    corpus.keep_failing(there)
    corpus.keep_failing(whole)
    corpus.keep_failing(shrunk, instead=whole)
    assert corpus.failing() == [there]


def test_corpora_merge_by_their_files(tmp_path: Path) -> None:
    """If this fails, what two machines found cannot be put together."""
    left, right = Corpus(tmp_path / "left"), Corpus(tmp_path / "right")
    both, own = trace(Submit(0), Step()), trace(Submit(0), Step(), Step())
    big, small = (trace(*[Step()] * n, failure=("hang", "timeout")) for n in (5, 2))
    left.keep(both)
    left.keep_failing(big)
    for one in (both, own):
        right.keep(one)
    right.keep_failing(small)
    left.merge(right)
    before = left.covering()
    left.merge(right)
    assert left.covering() == before
    assert sorted(map(len, (t.events for t in before))) == [2, 3]
    assert left.failing() == [small]


def test_a_file_under_another_name_is_refused(tmp_path: Path) -> None:
    """If this fails, the same trace can be in a corpus under two names."""
    corpus = Corpus(tmp_path)
    path = corpus.keep(trace(Submit(0), Step()))
    path.rename(path.with_name("mine.jsonl"))
    with pytest.raises(FileError, match=r"mine\.jsonl: its name does not go with its content"):
        corpus.covering()


def test_a_folder_that_cannot_be_written_is_wrong_usage(tmp_path: Path) -> None:
    """If this fails, a campaign runs all night and keeps nothing."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError):
        Corpus(tmp_path / "file")


def test_a_trace_is_named_by_its_content() -> None:
    """If this fails, two machines give one trace two names."""
    one = trace(Submit(0), Step())
    assert name_of(one) == name_of(msgspec.structs.replace(one))
    assert name_of(one) != name_of(trace(Submit(0), Step(), Step()))
    assert name_of(one) == "535720adc214f331"
