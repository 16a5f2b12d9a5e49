"""`draftproof validate`, the command: the 192 recordings agree, and no damaged file passes."""

import json
from pathlib import Path

import pytest
from changed_recordings import FILES, FOLDER, read, verdict, write
from hypothesis import given
from hypothesis import strategies as st

from draftproof.fuzz.cli import main
from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import FileError
from draftproof.sim.recordings import validate


def test_all_recordings_of_the_public_worker_agree(capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, the model is not the public worker, whatever else is green."""
    assert main(["validate", str(FOLDER)]) == 0
    report = capsys.readouterr()
    assert report.out == "192 of 192 recordings agree with the model, 1786 steps\n"
    assert report.err == ""


def test_a_disagreement_is_told_in_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, the report lacks file, step, request, field, expected or found."""
    lines = read(FOLDER / "01000.jsonl")
    lines[3]["state"]["rows"]["4"]["ctx_len"] += 1
    file = write(tmp_path / "run.jsonl", lines)
    assert main(["validate", str(file), str(FOLDER / "01000.jsonl")]) == 1
    assert capsys.readouterr().out == (
        f"{file}: disagrees with the model\n"
        "found by     recordings\n"
        "step         2\n"
        "request      4\n"
        "field        ctx_len\n"
        "expected     11\n"
        "found        12\n"
        "\n"
        "1 of 2 recordings agree with the model, 6 steps\n"
    )


HEADER = read(FILES[0])[0]

UNREADABLE = {
    "empty": (b"", "not a dspark-step-recording file"),
    "binary": (bytes(range(256)) * 4 + b"\n", "not a dspark-step-recording file"),
    "text": (b"Dear engine,\n", "not a dspark-step-recording file"),
    "no object": (b"[1, 2]\n", "not a dspark-step-recording file"),
    "foreign": (b'{"format": "trace", "version": 1}\n', "not a dspark-step-recording file"),
    "deep": (b"[" * 100_000 + b"\n", "not a dspark-step-recording file"),
    "newer": (
        json.dumps({**HEADER, "version": 2}).encode() + b"\n",
        "version 2 of dspark-step-recording; this draftproof reads version 1",
    ),
    "no version": (
        b'{"format": "dspark-step-recording"}\n',
        "version None of dspark-step-recording; this draftproof reads version 1",
    ),
    "no steps": (
        json.dumps(HEADER).encode() + b"\n",
        "no step after the first line, so nothing to check",
    ),
    "no end": (json.dumps(HEADER).encode(), "torn: the last line has no end"),
    "no step": (
        json.dumps(HEADER).encode() + b"\n{}\n",
        "line 2: not a step of a recording: Object missing required field `event`",
    ),
    "deep step": (
        json.dumps(HEADER).encode() + b"\n" + b"[" * 100_000 + b"\n",
        "line 2: not a step of a recording: ",
    ),
    "bad rule": (
        json.dumps({**HEADER, "config": {**HEADER["config"], "window_size": 0}}).encode() + b"\n",
        "line 1: window_size must be a whole number of at least 1",
    ),
    "unknown field": (
        json.dumps({**HEADER, "config": {**HEADER["config"], "windows": 2}}).encode() + b"\n",
        "line 1: Object contains unknown field `windows`",
    ),
    "huge": (
        json.dumps({**HEADER, "config": {**HEADER["config"], "num_stages": 10**12}}).encode()
        + b"\n",
        "line 1: Expected `int` <= 1048576",
    ),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_file_that_is_no_recording_exits_3(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, a wrong file ends in a traceback, a wrong code, or counts as agreement."""
    content, sentence = UNREADABLE[kind]
    file = tmp_path / "x.jsonl"
    file.write_bytes(content)
    assert main(["validate", str(FILES[0]), str(file)]) == 3
    report = capsys.readouterr()
    assert report.err.startswith(f"draftproof: {file}")
    assert sentence in report.err
    assert "1 of 2 recordings agree" in report.out


def test_a_missing_file_and_an_empty_folder_exit_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, a mistyped path passes for a successful check."""
    assert main(["validate", str(tmp_path / "none.jsonl")]) == 3
    assert "none.jsonl: cannot be read: No such file or directory" in capsys.readouterr().err
    assert main(["validate", str(tmp_path)]) == 3
    assert "no recordings (*.jsonl) in this folder" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_outweighs_one_that_disagrees(tmp_path: Path) -> None:
    """If this fails, the exit code depends on the order of the files."""
    wrong = read(FILES[0])
    wrong[1]["state"]["free"].reverse()
    files = [write(tmp_path / "a.jsonl", wrong), tmp_path / "none.jsonl"]
    assert main(["validate", *map(str, files)]) == main(["validate", *map(str, files[::-1])]) == 3


def test_a_file_cut_anywhere_but_at_the_end_of_a_line_is_torn(tmp_path: Path) -> None:
    """If this fails, half a recording passes for a whole one."""
    whole, file = (FOLDER / "01109.jsonl").read_bytes(), tmp_path / "cut.jsonl"
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        steps = whole[:length].count(b"\n") - 1
        if whole[:length].endswith(b"\n") and steps > 0:
            assert validate(file) == steps  # a shorter recording: no line says how many follow
        else:
            with pytest.raises(FileError):
                validate(file)


@given(at=st.integers(0, 10**6), junk=st.binary(max_size=8), length=st.integers(0, 8))
def test_damage_ends_in_a_verdict(
    tmp_path_factory: pytest.TempPathFactory, at: int, junk: bytes, length: int
) -> None:
    """If this fails, some damaged file makes the command crash instead of answering."""
    whole = FILES[0].read_bytes()
    at %= len(whole)
    file = tmp_path_factory.getbasetemp() / "damaged.jsonl"
    file.write_bytes(whole[:at] + junk + whole[at + length :])
    assert isinstance(verdict(file), Divergence | FileError | None)
