"""The prepared GPU check: its parts, its verdicts, and its own measurements, on a CPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from draftproof.fuzz import gpu_check
from draftproof.fuzz.cli import parser
from draftproof.fuzz.gpu_check import ROOT, Part, main, parts
from draftproof.fuzz.gpu_timings import generation_steps, measure


def python(code: str, name: str = "part", seconds: float = 60, needs: str | None = None) -> Part:
    return Part(name, (sys.executable, "-c", code), seconds, {"SAID": "hello"}, needs)


SAYS = "import os; print(os.environ['SAID'])"


@pytest.mark.parametrize(
    ("part", "code", "line"),
    [
        (python(SAYS), 0, "part ok hello"),
        (python("print('bad'); raise SystemExit(1)"), 1, "part failed bad"),
        (python("import os; os.abort()"), 1, "part failed"),
        (python("print('late'); raise SystemExit(5)"), 5, "part out of time late"),
        (python("import time; time.sleep(60)", seconds=5.1), 5, "part out of time stopped"),
        (python(SAYS, seconds=1), 5, "part out of time no time was left"),
        (python(SAYS, needs="no-such-program"), 0, "part absent no-such-program is not here"),
    ],
)
def test_every_end_of_a_part_has_its_verdict(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    part: Part,
    code: int,
    line: str,
) -> None:
    """If this fails, a part that found something, or never ran, looks fine."""
    monkeypatch.setattr(gpu_check, "parts", lambda device, quick: [part, python(SAYS, "after")])
    report = tmp_path / "report.json"
    assert main(["--device", "cpu", "--json", str(report)]) == code
    told, after = capsys.readouterr().out.splitlines()[2:4]
    words = [word for word in told.split() if word != "s" and not word.replace(".", "").isdigit()]
    assert " ".join(words).startswith(line)
    assert after.split()[:2] == ["after", "ok"]
    record = json.loads(report.read_text("utf-8"))["parts"][0]
    assert line.startswith(f"part {record['verdict']}")


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_parts_name_what_there_is(device: str, quick: bool) -> None:
    """If this fails, a part fails on the GPU for want of a file, or of an option."""
    planned = parts(device, quick)
    assert sum(part.seconds for part in planned) < 10 * 60
    options = set()
    for part in planned:
        for word in part.command:
            assert not word.startswith("/") or Path(word).exists(), word
        if "draftproof.fuzz.cli" in part.command:
            start = part.command.index("draftproof.fuzz.cli") + 1
            read = parser().parse_args(part.command[start:])
            assert read.device == device
            options.add((read.option["kernels"], read.option["graphs"]))
    assert len(options) == 4
    assert (ROOT / "docs" / "gpu.md").exists()


def test_the_timings_are_of_a_step_that_graphs_hold() -> None:
    """If this fails, the table compares something else than eager steps and replays."""
    batch = generation_steps(4, quick=True).steps[-1].batch
    assert (batch.mode, len(batch.generations), len(batch.contexts)) == ("replay", 4, 0)
    timings = measure("cpu", quick=True)
    assert [(t.kernels, t.graphs) for t in timings] == [("eager", "off"), ("eager", "on")]
    assert all(0 < t.prepare < t.step and 0 < t.forward < t.step for t in timings)
