"""`draftproof validate`: the 192 recordings agree, and whatever is changed in them is seen.

`BLIND` is the list of what cannot be seen, the one in `docs/recordings.md`: any other change of a
number by one must be a Divergence that says where and whose; and each entry must have a change that
really goes unseen, or it has to leave the list.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.fuzz.cli import main
from draftproof.reference.config import checked_schedule
from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import FileError
from draftproof.sim.recordings import validate

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "data" / "recordings"
FILES = sorted(FOLDER.glob("*.jsonl"))

# Between them: failed steps, eager and replayed; failed and plain warm-ups; padding; schedules,
# also with 0 and with idle entries, and none; W = 1; W < prompt; one slot; reused and paused ids.
EVERY_NUMBER = "01000 01006 01009 01017 01020 01028 01036 01047 01048 01060 01093 01097 01109"

Line = dict[str, Any]
Path_ = tuple[str | int, ...]


# ---- changing one number -------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A number in a recording: an integer, a boolean, or a key of a mapping that is a number."""

    line: int
    path: Path_
    key: bool = False

    @property
    def name(self) -> str:
        parts = ["#" if str(part).isdigit() else str(part) for part in self.path]
        return ".".join(parts) + ("[key]" if self.key else "")

    def changed(self, line: Line, delta: int) -> Line:
        """A copy of the line with this number changed; a boolean is flipped."""
        line = json.loads(json.dumps(line))
        holder: Any = line
        for part in self.path[:-1]:
            holder = holder[part]
        last = self.path[-1]
        if self.key:
            renamed = {str(int(k) + delta) if k == last else k: v for k, v in holder.items()}
            holder.clear()
            holder.update(renamed)
        else:
            old = holder[last]
            holder[last] = not old if isinstance(old, bool) else old + delta
        return line


def places(value: Any, line: int, path: Path_ = ()) -> Iterator[Place]:
    """Every number below a value."""
    if isinstance(value, int):
        yield Place(line, path)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key.isdigit():
                yield Place(line, (*path, key), key=True)
            yield from places(inner, line, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, line, (*path, index))


def read(file: Path) -> list[Line]:
    return [json.loads(text) for text in file.read_text("utf-8").splitlines()]


def write(file: Path, lines: list[Line]) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return file


def verdict(file: Path) -> Divergence | FileError | None:
    try:
        validate(file)
    except (Divergence, FileError) as error:
        return error
    return None


# ---- what cannot be seen -------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """A recording before and after, and where the difference is."""

    place: Place
    before: list[Line]
    after: list[Line]

    @property
    def step(self) -> Line:
        return self.before[self.place.line]

    @property
    def row(self) -> Line:
        row: Line = self.step[str(self.place.path[0])][self.place.path[1]]
        return row

    def is_in(self, *kinds: str) -> bool:
        """Is the changed line a step of one of these kinds?"""
        step = self.step
        return step["mode"] in kinds or ("failed" in kinds and bool(step["failed"]))

    def config(self, name: str) -> Any:
        return self.before[0]["config"][name]


def same_lengths(change: Change) -> bool:
    """Does the changed schedule give every recorded batch its length?"""
    k = change.config("block_size")
    schedule = change.after[0]["config"]["draft_len_schedule"].items()
    pairs = checked_schedule([(int(size), r) for size, r in schedule], k)
    sizes = [(len(s["contexts"]) + len(s["generations"]), s) for s in change.before[1:]]
    return all(next((r for n, r in pairs if n >= b), 0) == s["draft_len"] for b, s in sizes)


def nothing_fell_out(change: Change) -> bool:
    """Was no request fed more rows than its window holds, from admission to departure?"""
    fed: dict[int, int] = {}
    most, window = 0, int(change.config("window_size"))
    for step in change.before[1:]:
        counts = [(row["id"], row["length"]) for row in step["contexts"]]
        counts += [(row["id"], row["num_accepted"]) for row in step["generations"]]
        stored = step["mode"] != "warmup" and not step["failed"]
        fed = {i: fed.get(i, 0) + (n if stored else 0) for i, n in counts}
        most = max([most, *fed.values()])
    return most <= window


def not_held_before(change: Change) -> bool:
    previous = change.before[change.place.line - 1]
    if change.place.line == 1 or previous["failed"]:
        return True
    row = previous["state"]["rows"].get(str(change.row["id"]))
    return row is None or not row["initialized"]


@dataclass(frozen=True)
class Blind:
    """A kind of change that may go unseen: its words in the docs, its rule, and one that does."""

    words: str
    name: str
    may_hide: Callable[[Change], bool]
    example: tuple[str, Place, int]


def always(change: Change) -> bool:
    return True


def unscheduled(change: Change) -> bool:
    return change.config("draft_len_schedule") is None


def undone(change: Change) -> bool:
    return change.is_in("warmup", "failed")


BLIND = [
    Blind("`seed`: it means nothing", r"seed", always, ("01109", Place(0, ("seed",)), 1)),
    Blind(
        "`num_stages`: all stages",
        r"config\.num_stages",
        always,
        ("01109", Place(0, ("config", "num_stages")), -1),
    ),
    Blind(
        "`window_size`, if no row of the file ever fell out",
        r"config\.window_size",
        nothing_fell_out,
        ("01017", Place(0, ("config", "window_size")), -1),
    ),
    Blind(
        "`block_size` without a schedule",
        r"config\.block_size",
        unscheduled,
        ("01097", Place(0, ("config", "block_size")), 1),
    ),
    Blind(
        "`draft_len_schedule`: entries",
        r"config\.draft_len_schedule\.#(\[key\])?",
        same_lengths,
        ("01036", Place(0, ("config", "draft_len_schedule", "2")), 1),
    ),
    Blind(
        "`draft_len` without a schedule",
        r"draft_len",
        unscheduled,
        ("01048", Place(10, ("draft_len",)), -1),
    ),
    Blind(
        "`num_padding` of a replay or a warm-up",
        r"num_padding",
        lambda change: change.is_in("replay", "warmup"),
        ("01000", Place(3, ("num_padding",)), 1),
    ),
    Blind(
        "`num_accepted` in a warm-up",
        r"generations\.#\.num_accepted",
        lambda change: change.is_in("warmup"),
        ("01000", Place(3, ("generations", 0, "num_accepted")), 1),
    ),
    Blind(
        "`position` of a generation in a warm-up or a failed step",
        r"generations\.#\.position",
        lambda change: undone(change) and not_held_before(change),
        ("01017", Place(4, ("generations", 0, "position")), 1),
    ),
    Blind(
        "`first_position` and `length` of a context in a failed step",
        r"contexts\.#\.(first_position|length)",
        lambda change: change.is_in("failed"),
        ("01097", Place(11, ("contexts", 1, "first_position")), 1),
    ),
    Blind(
        "`incarnation` in a warm-up or a failed step",
        r"(contexts|generations)\.#\.incarnation",
        undone,
        ("01093", Place(6, ("generations", 0, "incarnation")), 1),
    ),
    Blind(
        "`ctx_len`, `valid_len`, `initialized` and `frames` in a failed step",
        r"state\.rows\.#\.(ctx_len|valid_len|initialized|frames\.#.*)",
        lambda change: change.is_in("failed"),
        ("01000", Place(4, ("state", "rows", "4", "ctx_len")), 1),
    ),
    Blind(
        "`failed` may be set on a step without generations",
        r"failed",
        lambda change: not change.step["failed"] and not change.step["generations"],
        ("01109", Place(2, ("failed",)), 1),
    ),
]


def hiders(change: Change) -> list[Blind]:
    """The entries of the list that cover a change."""
    name = change.place.name
    return [b for b in BLIND if re.fullmatch(b.name, name) and b.may_hide(change)]


@pytest.mark.parametrize("blind", BLIND, ids=lambda blind: blind.name)
def test_what_the_docs_list_really_goes_unseen(blind: Blind, tmp_path: Path) -> None:
    """If this fails, the list is stale: the change is seen now, or is not what the docs say."""
    name, place, delta = blind.example
    before = read(FOLDER / f"{name}.jsonl")
    after = [*before]
    after[place.line] = place.changed(before[place.line], delta)
    assert after != before
    assert verdict(write(tmp_path / "changed.jsonl", after)) is None
    assert hiders(Change(place, before, after)) == [blind]
    assert blind.words in (ROOT / "docs" / "recordings.md").read_text("utf-8")


# ---- what is seen --------------------------------------------------------------------------------


def check_changes(file: Path, scratch: Path, chosen: Callable[[Place], bool]) -> int:
    """Change each chosen number by one, up and down; returns how many changes were tried."""
    before, tried = read(file), 0
    texts = [json.dumps(line) + "\n" for line in before]
    for place in (place for i, line in enumerate(before) for place in places(line, i)):
        if not chosen(place):
            continue
        for delta in (1, -1):
            after = [*before]
            after[place.line] = place.changed(before[place.line], delta)
            altered = [*texts]
            altered[place.line] = json.dumps(after[place.line]) + "\n"
            scratch.write_text("".join(altered), "utf-8")
            check_verdict(Change(place, before, after), verdict(scratch))
            tried += 1
    return tried


def check_verdict(change: Change, found: Divergence | FileError | None) -> None:
    place = change.place
    if found is None:
        assert hiders(change), f"unseen: {place}"
    elif isinstance(found, FileError):
        # Not a recording any more. The numbers of batch rows and of the state are never so.
        assert place.line == 0 or place.name in ("draft_len", "num_padding"), (place, found)
    else:
        assert found.oracle == "recordings"
        assert found.step is not None
        assert found.step >= place.line - 1, "named a step before the changed one"
        assert found.field
        assert found.expected != found.found
        check_names(change, found)


def check_names(change: Change, found: Divergence) -> None:
    """Does the divergence say what was changed, and whose it is?"""
    place, path = change.place, change.place.path
    if path[0] in ("contexts", "generations"):
        if path[2] == "id":  # may show at whoever comes to harm first
            assert found.request is not None, (place, found)
        elif path[2] == "incarnation":  # the queue is nobody's
            assert found.request is not None or found.field == "free", (place, found)
        else:
            assert found.request == change.row["id"], (place, found)
    elif path[0] == "state":
        assert found.step == place.line - 1
        if path[1] == "free":
            was, now = (
                lines[place.line]["state"]["free"] for lines in (change.before, change.after)
            )
            assert (found.field, found.expected, found.found) == ("free", was, now)
        elif len(path) == 3:
            assert found.request in {int(i) for i in (path[2], int(path[2]) + 1, int(path[2]) - 1)}
        else:
            check_row_names(change, found)


def check_row_names(change: Change, found: Divergence) -> None:
    _, _, request, field, *frame = change.place.path
    assert (found.request, found.field) == (int(request), field), (change.place, found)
    rows = [
        lines[change.place.line]["state"]["rows"][request]
        for lines in (change.before, change.after)
    ]
    was, now = (row[field] for row in rows)
    if not frame:
        assert (found.expected, found.found) == (was, now)
    elif not change.place.key:
        key = str(frame[0])
        assert (found.frame, found.expected) == (int(key), was[key])
        assert list(found.found) == now[key]


@pytest.mark.parametrize("name", EVERY_NUMBER.split())
def test_any_number_changed_by_one_is_seen_and_named(name: str, tmp_path: Path) -> None:
    """If this fails, a wrong recording passes, or the report sends people to the wrong place."""
    assert check_changes(FOLDER / f"{name}.jsonl", tmp_path / "x.jsonl", lambda place: True) > 100


@pytest.mark.timeout(1200)
def test_a_sample_of_changes_in_every_file_is_seen(tmp_path: Path) -> None:
    """If this fails, a change goes unseen under conditions that the chosen files do not have.

    Under the nightly profile every number of every file is tried.
    """
    share = 1.0 if settings.get_current_profile_name() == "nightly" else 0.01
    random = Random(20)
    for file in FILES:
        check_changes(file, tmp_path / "x.jsonl", lambda place: random.random() < share)


# ---- the command ---------------------------------------------------------------------------------


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
