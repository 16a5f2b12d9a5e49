"""Recordings with one number changed, and which of these changes cannot be seen.

`BLIND` is the list of what cannot be seen, the one in `docs/recordings.md`.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftproof.reference.config import checked_schedule
from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import FileError
from draftproof.sim.recordings import validate

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "data" / "recordings"
FILES = sorted(FOLDER.glob("*.jsonl"))

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
