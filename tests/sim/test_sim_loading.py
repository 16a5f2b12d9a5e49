"""Implementations by name: every way in which loading one fails gives one clear sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from batches import lent, make_batch, small

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import ConfigError
from draftproof.sim.errors import ImplementationError
from draftproof.sim.loading import load

LENT = lent(small())

WORKER = """
from draftproof.reference.model import Model

def make(config, device, collaborators, **options):
    worker = Model(config, collaborators)
    worker.made_with = (device, options)
    return worker
"""


@pytest.fixture(autouse=True)
def _leave_no_modules() -> Iterator[None]:
    """What a test imports is gone after it."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def written(folder: Path, text: str, name: str = "worker.py") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def refusal(name: str) -> str:
    """What a user is told, wherever it turns out."""
    with pytest.raises(ImplementationError) as caught:
        load(name)(small(), LENT)
    assert caught.value.exit_code == 4
    text = str(caught.value)
    assert text.startswith(f"implementation {name!r}: ")
    assert "\n" not in text
    return text.removeprefix(f"implementation {name!r}: ")


@pytest.mark.parametrize("name", ["", "worker", "worker:", ":make", "worker.py"])
def test_a_name_needs_a_module_and_a_factory(name: str) -> None:
    """If this fails, a mistyped name gives a traceback."""
    assert refusal(name) == "write it as module:factory or path.py:factory"


def test_a_missing_module_is_told_from_a_missing_requirement(tmp_path: Path) -> None:
    """If this fails, somebody installs a package although the name was mistyped."""
    assert refusal("no_such_thing:make") == "No module named 'no_such_thing'; check the name"
    assert refusal("draftproof.no_such_thing:make").endswith("; check the name")
    assert refusal("no_such_thing.below:make").endswith("; check the name")
    assert refusal("json.decoder.below:make").endswith("; check the name")
    path = written(tmp_path, "import no_such_thing\n")
    assert refusal(f"{path}:make") == "No module named 'no_such_thing'; install it"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """If this fails, a mistyped path gives a traceback."""
    text = refusal(f"{tmp_path}/none.py:make")
    assert text == f"importing it raised FileNotFoundError: no file {tmp_path}/none.py"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def make(:", "importing it raised SyntaxError: "),
        ("1 / 0", "importing it raised ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(0)", "importing it raised SystemExit: 0"),
        ("from json import no_such", "importing it raised ImportError: "),
        ("made = 1", "no factory 'make' in it"),
        ("make = 1", "no factory 'make' in it"),
        ("def make(): ...", "its factory raised TypeError: "),
        ("def make(*a): raise RuntimeError('no GPU here')", "its factory raised RuntimeError: no"),
        ("def make(*a): raise SystemExit(3)", "its factory raised SystemExit: 3"),
        ("def make(*a): return None", "its factory returned None: it has to return"),
        ("class make:\n def __init__(s, *a): ...\n def prepare(s, b): ...", "make has no method f"),
        (
            "class make:\n def __init__(s, *a): ...\n def prepare(s, b): ...\n"
            " def forward(s, b): ...\n state = 3",
            "make has no method state()",
        ),
        (
            "class make:\n def __init__(s, *a): ...\n @property\n"
            " def prepare(s): raise OSError('no')",
            "looking at its make raised OSError: no",
        ),
    ],
)
def test_whatever_is_wrong_with_it_is_said_in_one_sentence(
    tmp_path: Path, text: str, message: str
) -> None:
    """If this fails, a broken implementation ends the command with a traceback, or with 0."""
    assert refusal(f"{written(tmp_path, text)}:make").startswith(message)


def test_a_module_name_that_is_none_is_refused() -> None:
    """If this fails, a relative name gives a traceback."""
    assert refusal(".worker:make").startswith("importing it raised TypeError: ")


def test_options_and_device_reach_the_factory(tmp_path: Path) -> None:
    """If this fails, `-o key=value` or `--device` is ignored."""
    path = written(tmp_path, WORKER)
    worker = load(f"{path}:make", "cuda", {"dtype": "bf16"})(small(), LENT)
    assert vars(worker)["made_with"] == ("cuda", {"dtype": "bf16"})
    worker = load(f"{path}:make")(small(), LENT)
    assert vars(worker)["made_with"] == ("cpu", {})


def test_an_option_that_the_factory_does_not_know_is_an_error() -> None:
    """If this fails, a mistyped option is silently ignored."""
    make = load("draftproof.reference.model:make", "cpu", {"speed": "high"})
    with pytest.raises(ImplementationError, match="takes no options, but got \\['speed'\\]"):
        make(small(), LENT)


def test_a_refused_configuration_is_not_a_broken_implementation(tmp_path: Path) -> None:
    """If this fails, a worker with fewer features cannot be checked at all."""
    text = """
from draftproof.reference.vocabulary import ConfigError
def make(*a): raise ConfigError("one stage only")
"""
    make = load(f"{written(tmp_path, text)}:make")
    with pytest.raises(ConfigError, match="one stage only"):
        make(small(), LENT)


def test_a_file_finds_what_lies_beside_it_and_shadows_nothing(tmp_path: Path) -> None:
    """If this fails, a door cannot import its neighbours, or replaces a module of its name."""
    written(tmp_path, WORKER, "neighbour_of_json.py")
    path = written(tmp_path, "from neighbour_of_json import make\n", "json.py")
    import json

    worker = load(f"{path}:make")(small(), LENT)
    assert isinstance(worker, Model)
    assert sys.modules["json"] is json
    assert json.loads("1") == 1


def test_a_module_is_found_by_its_name() -> None:
    """If this fails, an installed implementation cannot be reached."""
    worker = load("draftproof.reference.model:make")(small(), LENT)
    worker.prepare(make_batch())
    assert worker.state().draft_seq == 1
