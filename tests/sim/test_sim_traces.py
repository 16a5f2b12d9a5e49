"""Trace files: what is read back, and what is refused with a clear sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from batches import small
from hypothesis import given
from hypothesis import strategies as st

from draftproof.reference.config import checked
from draftproof.sim.choices import Seeded
from draftproof.sim.configs import choose_config
from draftproof.sim.errors import FileError, UsageError
from draftproof.sim.events import Step, Submit
from draftproof.sim.files import check_writable, write_whole
from draftproof.sim.run import simulate
from draftproof.sim.traces import Trace, cut, decode, encode, load, save

TEXT = st.text(max_size=8)

PLAIN = Trace(
    config=checked(small(draft_len_schedule=((1, 3), (2, 0)), poison=True)),
    events=(Submit(0, prompt=3, limit=9), Step(), Step(accepts=(1, 2), fault="draft")),
    implementation="draftproof.gpu.worker:make",
    options={"b": "2", "a": "1"},
    failure=("comparison", "ctx_len"),
)

AS_TEXT = b"""\
{"format":"draftproof-trace","version":1,"num_events":3,"config":{"max_draft_len":3,\
"window_size":8,"num_stages":1,"max_num_requests":3,"block_size":3,\
"draft_len_schedule":[[1,3],[2,0]],"poison":true},"implementation":"draftproof.gpu.worker:make",\
"options":{"a":"1","b":"2"},"failure":["comparison","ctx_len"]}
{"type":"submit","request":0,"prompt":3,"limit":9}
{"type":"step"}
{"type":"step","accepts":[1,2],"fault":"draft"}
"""


def test_a_trace_is_lines_that_a_person_can_read() -> None:
    """If this fails, version 1 of the format has changed: give it a new number."""
    assert encode(PLAIN) == AS_TEXT
    assert decode(AS_TEXT, "t") == PLAIN


@given(
    seed=st.integers(0, 10**6),
    events=st.integers(0, 30),
    implementation=TEXT,
    options=st.dictionaries(TEXT, TEXT, max_size=3),
    device=TEXT,
    failure=st.none() | st.tuples(TEXT, TEXT),
    engine_defect=st.none() | TEXT,
)
def test_what_is_written_is_read_back(seed: int, events: int, **more: Any) -> None:
    """If this fails, a saved trace is not the schedule that failed."""
    choices = Seeded(seed)
    run = simulate(choose_config(choices), choices, events)
    trace = Trace(run.config, tuple(run.events), **more)
    data = encode(trace)
    assert decode(data, "t") == trace
    assert encode(decode(data, "t")) == data


def test_every_cut_of_the_bytes_is_refused() -> None:
    """If this fails, a torn file is replayed as if it were whole."""
    for length in range(len(AS_TEXT)):
        with pytest.raises(FileError):
            decode(AS_TEXT[:length], "t")


def changed(**fields: Any) -> bytes:
    """The trace with other fields in its header."""
    header, *events = AS_TEXT.splitlines(keepends=True)
    return json.dumps({**json.loads(header), **fields}).encode() + b"\n" + b"".join(events)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (changed(version=2), "t: version 2 of draftproof-trace; this draftproof reads version 1"),
        (changed(version="1"), "t: version '1' of draftproof-trace"),
        (changed(format="dspark-step-recording"), "t: not a draftproof-trace file"),
        (b"", "t: not a draftproof-trace file"),
        (AS_TEXT[:60], "t: torn within line 1, its header"),
        (b"\x89PNG\r\n\x1a\n\xff", "t: not a draftproof-trace file"),
        (b"[1, 2]\n", "t: not a draftproof-trace file"),
        (b"[" * 100_000 + b"\n", "t: not a draftproof-trace file"),
        (changed(num_events=2), "t: torn: its header announces 2 events, but 3 whole lines follow"),
        (AS_TEXT + b"\n", "t: torn"),
        (AS_TEXT + b"{", "t: torn"),
        (AS_TEXT[:-2] + b"\n", "t, line 4: not an event"),
        (AS_TEXT.replace(b'"step"', b'"stop"', 1), "t, line 3: not an event"),
        (AS_TEXT.replace(b'"limit"', b'"limits"'), "t, line 2: not an event"),
        (AS_TEXT.replace(b'"draft"', b'"\xff"'), "t, line 4: not an event"),
        (AS_TEXT.replace(b'{"type":"step"}', b"[" * 100_000), "t, line 3: not an event"),
        (changed(surprise=1), "t, line 1: Object contains unknown field `surprise`"),
        (changed(failure=3), "t, line 1: Expected `array | null`, got `int` - at `$.failure`"),
        (changed(config={"window": 3}), "t, line 1: unknown configuration ['window']"),
        (changed(config={"window_size": 3}), "t, line 1: Object missing required field"),
        (
            AS_TEXT.replace(b'"block_size":3', b'"block_size":2'),
            "t, line 1: block_size 2 differs from max_draft_len 3",
        ),
        (AS_TEXT.replace(b'"window_size":8', b'"window_size":"8"'), "t, line 1: Expected `int`"),
        (AS_TEXT.replace(b'"window_size":8', b'"window_size":0'), "t, line 1: window_size must"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused_with_its_place(data: bytes, message: str) -> None:
    """If this fails, a bad file gives a traceback, or a sentence that helps nobody."""
    with pytest.raises(FileError) as caught:
        decode(data, "t")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3


def test_files_are_saved_and_loaded_by_path(tmp_path: Path) -> None:
    """If this fails, traces do not reach the disk, or folders must be made by hand."""
    path = tmp_path / "new" / "folder" / "t.jsonl"
    save(PLAIN, path)
    assert load(path) == PLAIN
    save(cut(PLAIN, [Step()]), path)
    assert load(path) == cut(PLAIN, [Step()])
    assert [file.name for file in path.parent.iterdir()] == ["t.jsonl"]


def test_a_cut_keeps_everything_but_the_events() -> None:
    """If this fails, shrinking forgets what the trace is about."""
    shorter = cut(PLAIN, PLAIN.events[1:])
    assert shorter.events == PLAIN.events[1:]
    assert (shorter.config, shorter.failure) == (PLAIN.config, PLAIN.failure)
    assert shorter.options == PLAIN.options


@pytest.mark.parametrize("name", ["missing.jsonl", "", "file/below.jsonl"])
def test_what_cannot_be_read_is_said(tmp_path: Path, name: str) -> None:
    """If this fails, a missing file or a folder gives a traceback."""
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=r"cannot be read: [A-Z]"):
        load(tmp_path / name)


@pytest.mark.parametrize("name", ["file/t.jsonl", "file/below/t.jsonl", "folder", "long" * 100])
def test_what_cannot_be_written_is_said_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    """If this fails, a folder that cannot be written gives a traceback, or rubbish stays in it."""
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match=r"cannot be written: [A-Z]") as caught:
        save(PLAIN, tmp_path / name)
    assert caught.value.exit_code == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "kept"


def test_a_folder_is_tried_before_any_work_is_done(tmp_path: Path) -> None:
    """If this fails, the first failure after an hour cannot be saved."""
    check_writable(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError) as info:
            check_writable(folder)
        assert str(info.value).startswith(f"{folder}: cannot be written: ")


def test_a_write_that_fails_half_way_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a full disk destroys the trace that was there."""
    path = tmp_path / "t.jsonl"
    save(PLAIN, path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UsageError, match="No space left on device"):
        write_whole(b"other", path)
    assert load(path) == PLAIN
    assert [file.name for file in tmp_path.iterdir()] == ["t.jsonl"]


def test_a_configuration_is_written_in_its_normal_form() -> None:
    """If this fails, equal traces have different bytes, and none is recognised as saved before."""
    config = replace(PLAIN.config, draft_len_schedule=((2, 0), (1, 3)), block_size=None)
    assert encode(Trace(checked(config), ())) == encode(cut(Trace(PLAIN.config, ()), ()))


def test_a_file_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a device given by mistake fills the memory."""
    monkeypatch.setattr("draftproof.sim.files.MOST_BYTES", 1 << 20)
    with pytest.raises(FileError, match="/dev/zero: more than 1 MiB, which no file of ours has"):
        load(Path("/dev/zero"))
