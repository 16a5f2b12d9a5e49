"""A failure that needs more than its trace: what an implementation keeps outside of its worker."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import draftproof

IMPLEMENTATION = """
from draftproof.reference.model import Model

MADE = []


class Counts(Model):
    def __init__(self, config, device, collaborators):
        super().__init__(config, collaborators)
        MADE.append(self)

    def state(self):
        shown = super().state()
        shown.draft_seq += {wrong}
        return shown
"""


@pytest.mark.parametrize(("wrong", "outside"), [("len(MADE) > 1", True), ("1", False)])
def test_a_trace_that_fails_only_behind_other_cases_says_so(
    tmp_path: Path, wrong: str, outside: bool
) -> None:
    """If this fails, the printed command shows nothing, and nobody is told why."""
    (tmp_path / "counts.py").write_text(IMPLEMENTATION.format(wrong=wrong))
    done = draftproof(
        "check", "--implementation", "counts.py:Counts", "--examples", 1, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "fails        10 of 10 replays\n" in done.stdout
    told = "elsewhere    nothing goes wrong in a new process: " in done.stdout
    assert told is outside
