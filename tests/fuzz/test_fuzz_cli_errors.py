"""Bad input gives one clear sentence and its exit code; light commands start light."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from batches import small
from command import MODEL, draftproof

from draftproof.fuzz.cli import main
from draftproof.reference.config import checked
from draftproof.sim.events import Step, Submit
from draftproof.sim.traces import Trace, encode, save

RECORDING = Path(__file__).parent.parent / "data" / "recordings" / "01000.jsonl"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "the following arguments are required: COMMAND"),
        (("chek",), "invalid choice: 'chek'"),
        (("check", "--steps", "0"), "argument --steps: '0' is not a whole number of at least 1"),
        (("check", "--examples", "-1"), "--examples: '-1' is not a whole number of at least 1"),
        (("check", "--examples", "many"), "--examples: 'many' is not a whole number of at least 1"),
        (("check", "--minutes", "0"), "argument --minutes: '0' is not a time of more than 0"),
        (("check", "--minutes", "nan"), "argument --minutes: 'nan' is not a time of more than 0"),
        (("check", "--step-timeout", "-1"), "--step-timeout: '-1' is not a time of more than 0"),
        (("check", "--minutes", "ten"), "argument --minutes: 'ten' is not a time of more than 0"),
        (("check", "--minutes", "inf"), "'inf' is not a time of more than 0 and below 1e6"),
        (("check", "-o", "speed"), "argument -o: 'speed' is not KEY=VALUE"),
        (("check", "-o", "=high"), "argument -o: '=high' is not KEY=VALUE"),
        (("check", "--seed", "x"), "argument --seed: invalid int value: 'x'"),
        (("check", "--speed"), "unrecognized arguments: --speed"),
        (("replay",), "the following arguments are required: TRACE"),
        (("shrink", "t.jsonl"), "the following arguments are required: --out"),
        (("validate",), "the following arguments are required: RECORDING"),
    ],
)
def test_wrong_usage_is_2_and_names_the_option(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    """If this fails, a mistyped option is ignored, or gives a traceback."""
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("command", ["check", "replay", "shrink", "validate"])
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    """If this fails, a user cannot find out which options there are."""
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"usage: draftproof {command}" in capsys.readouterr().out


def sentence(folder: Path, code: int, *words: object) -> str:
    """What a command says on stderr; it says nothing else, but may name what it checks."""
    done = draftproof(*words, cwd=folder)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("draftproof: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout.count("\n") <= 1
    return done.stderr.removeprefix("draftproof: ").rstrip("\n")


@pytest.mark.parametrize("below", ["", "/traces"])
def test_a_folder_that_cannot_be_written_is_2_before_any_work(folder: Path, below: str) -> None:
    """If this fails, the first failure after an hour cannot be saved."""
    said = sentence(
        folder, 2, "check", "--implementation", MODEL, "--trace-dir", f"faulty.py{below}"
    )
    assert ": cannot be written: " in said
    save(Trace(checked(small()), (Step(),) * 3, "faulty.py:Wrong"), folder / "t.jsonl")
    said = sentence(folder, 2, "shrink", "t.jsonl", "--out", f"faulty.py{below}/out.jsonl")
    assert ": cannot be written: " in said


@pytest.mark.parametrize(
    "words",
    [
        ("fuzz", "--minutes", "600", "--report", "faulty.py/report.json"),
        ("fuzz", "--minutes", "600", "--matrix", "faulty.py/matrix.md"),
        ("faults", "--write", "faulty.py/faults.md"),
        ("defects", "--save", "faulty.py/docs"),
        ("defects", "--traces", "faulty.py/traces"),
        ("fuzz", "--minutes", "600", "--report", "."),
        ("fuzz", "--minutes", "600", "--matrix", ".."),
        ("shrink", "t.jsonl", "--out", "."),
    ],
)
def test_so_is_whatever_else_is_written_in_the_end(folder: Path, words: tuple[str, ...]) -> None:
    """If this fails, an hour's table is lost, since nobody looked whether it could be kept."""
    save(Trace(checked(small()), (Step(),)), folder / "t.jsonl")
    assert ": cannot be written: " in sentence(folder, 2, *words)


@pytest.mark.parametrize("command", [("replay",), ("shrink", "--out", "out.jsonl")])
def test_a_trace_that_cannot_be_read_is_3(folder: Path, command: tuple[str, ...]) -> None:
    """If this fails, a trace of a later version runs as if it were understood."""
    header, *events = encode(Trace(checked(small()), (Step(),))).splitlines(keepends=True)
    later = json.dumps({**json.loads(header), "version": 2}).encode() + b"\n"
    (folder / "t.jsonl").write_bytes(later + b"".join(events))
    assert sentence(folder, 3, *command, "t.jsonl") == (
        "t.jsonl: version 2 of draftproof-trace; "
        "this draftproof reads version 1, so the file needs another one"
    )
    assert sentence(folder, 3, *command, "none.jsonl") == (
        "none.jsonl: cannot be read: No such file or directory"
    )
    assert sentence(folder, 3, *command, RECORDING).endswith(": not a draftproof-trace file")


def test_a_trace_of_an_engine_defect_that_is_not_known_is_3(folder: Path) -> None:
    """If this fails, a trace of a planted engine defect passes with the engine as it should be."""
    save(Trace(checked(small()), (Step(),), engine_defect="nobody"), folder / "t.jsonl")
    said = sentence(folder, 3, "replay", "t.jsonl")
    assert said == "the trace names an unknown engine defect 'nobody'"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_thing:make", "No module named 'no_such_thing'; check the name"),
        ("none.py:make", "importing it raised FileNotFoundError: no file none.py"),
        ("faulty.py:nothing", "no factory 'nothing' in it"),
        ("faulty.py:not_callable", "no factory 'not_callable' in it"),
        ("faulty.py", "write it as module:factory or path.py:factory"),
        ("faulty.py:broken", "its factory raised RuntimeError: no GPU here"),
    ],
)
def test_an_implementation_that_cannot_be_loaded_is_4(
    folder: Path, name: str, message: str
) -> None:
    """If this fails, a mistyped implementation gives a traceback, or a verdict."""
    said = sentence(folder, 4, "check", "--implementation", name)
    assert said == f"implementation {name!r}: {message}"


@pytest.mark.parametrize("name", ["RefusesEverything", "RefusesSlowly"])
def test_an_implementation_that_supports_nothing_is_4(folder: Path, name: str) -> None:
    """If this fails, a check in which not one case was run has a verdict, or never ends."""
    said = sentence(folder, 4, "check", "--implementation", f"faulty.py:{name}")
    assert said == (
        "the factory refused each of 100 configurations, the last with: no window of this size"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fuzz", "--cases", "16"), "the factory refused each of 16 configurations, for example"),
        (("explore", "--events", "1"), "does not support the configuration of this scope: no win"),
    ],
)
def test_so_is_one_in_a_short_campaign(folder: Path, words: tuple[str, ...], message: str) -> None:
    """If this fails, "no difference found" is said where nothing was run, or a traceback."""
    said = sentence(folder, 4, *words, "--implementation", "faulty.py:RefusesEverything")
    assert message in said


def test_a_page_of_faults_that_is_no_markdown_is_refused_first(folder: Path) -> None:
    """If this fails, half an hour's table is lost for its name."""
    said = sentence(folder, 2, "faults", "--write", "faults.txt")
    assert said == "faults.txt: the page is Markdown: name it *.md"


def test_a_trace_that_the_implementation_refuses_is_4(folder: Path) -> None:
    """If this fails, "nothing goes wrong" is said of a trace that was not run."""
    save(Trace(checked(small(num_stages=2)), (Step(),), "faulty.py:Refuses"), folder / "t.jsonl")
    for words in (("replay", "t.jsonl"), ("shrink", "t.jsonl", "--out", "out.jsonl")):
        assert sentence(folder, 4, *words) == (
            "the implementation does not support the configuration of the trace: one stage only"
        )


@pytest.mark.parametrize("words", [("validate", RECORDING), ("replay", "t.jsonl")])
def test_commands_without_an_implementation_start_without_the_heavy_libraries(
    folder: Path, words: tuple[object, ...]
) -> None:
    """If this fails, validating a recording, or replaying an engine's trace, needs torch."""
    save(Trace(checked(small()), (Submit(0, limit=9), Step(), Step())), folder / "t.jsonl")
    done = draftproof(*words, cwd=folder, PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert [line for line in lines if not line.startswith("import time:")] == []
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    assert {"draftproof", "msgspec"} <= loaded
    assert loaded.isdisjoint({"torch", "hypothesis", "rich"})
