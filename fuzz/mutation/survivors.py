"""The committed list of mutants that nothing sees, each with the reason why.

One mutant a line: its name, ` | `, and why it is equivalent. A reason that begins with `not seen: `
is none: it says what an oracle lacks, and the mutant counts against it. `# ...` is a comment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from draftproof.fuzz.mutation.children import Verdict
from draftproof.sim.errors import FileError

LIST = Path("tests/mutation/survivors.txt")
BETWEEN = " | "
NOT_SEEN = "not seen: "
GOAL = 95.0
"""Per cent of a side's mutants that must be killed, of those that are not equivalent."""


def read(path: Path = LIST) -> dict[str, str]:
    """Reasons by names. Raises FileError for a line without a reason, or one that comes twice."""
    reasons: dict[str, str] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, between, reason = line.rpartition(BETWEEN)
        if not between or not name.strip() or not reason.strip():
            raise FileError(f"{path}:{number}: write it as NAME{BETWEEN}WHY IT IS EQUIVALENT")
        if name in reasons:
            raise FileError(f"{path}:{number}: {name} stands in the list twice")
        reasons[name] = reason
    return reasons


def mistakes(
    reasons: Mapping[str, str], verdicts: Mapping[str, Verdict], known: Sequence[str]
) -> list[str]:
    """What fails a run: a mutant survives that is not listed, or a listed one does not.

    verdicts: of the mutants that were judged; known: names of all that there are in these files.
    """
    told = []
    for name, verdict in verdicts.items():
        if verdict.fate == "survived" and name not in reasons:
            told.append(f"survived, and is not listed: {name}")
        if verdict.fate != "survived" and name in reasons:
            told.append(f"listed, but {verdict.fate} by {verdict.oracle}: {name}")
    names = set(known)
    files = {name.partition("::")[0] for name in known}
    for name in reasons:
        if name.partition("::")[0] in files and name not in names:
            told.append(f"listed, but there is no such mutant: {name}")
    return told
