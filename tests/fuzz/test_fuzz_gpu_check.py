"""The prepared GPU check: its parts, its verdicts, and its own measurements, on a CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import pytest
import torch

from draftproof.fuzz.cli import parser
from draftproof.fuzz.gpu_check import check
from draftproof.fuzz.gpu_check.check import OWN, ROOT, Part, main, parts
from draftproof.fuzz.gpu_check.parts import PARTS
from draftproof.fuzz.gpu_check.timings import generation_steps, measure


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
        (python("import time; time.sleep(60)", seconds=5.1), 5, "part out of time its time was up"),
        (
            python("import time; print('FAILED x', flush=True); time.sleep(60)", seconds=5.1),
            1,
            "part failed FAILED x",
        ),
        (
            replace(python("print('cannot, no'); raise SystemExit(9)"), refusal="cannot"),
            0,
            "part absent does not work here: cannot",
        ),
        (replace(python("print('cannot')"), refusal="cannot"), 0, "part ok cannot"),
        (replace(python(SAYS), proof="hello"), 0, "part ok hello"),
        (replace(python(SAYS), proof="0 errors"), 1, "part failed it did not say '0 errors'"),
        (python(SAYS, seconds=1), 5, "part out of time no time was left"),
        (python(SAYS, needs="no-such-program"), 0, "part absent not here: no-such-program"),
        (
            replace(python(SAYS, needs="no-such"), packages=("json", "nobody", "nothing")),
            0,
            "part absent not here: no-such, nobody, nothing",
        ),
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
    monkeypatch.setattr(check, "parts", lambda device, quick: [part, python(SAYS, "after")])
    report = tmp_path / "report.json"
    assert main(["--device", "cpu", "--json", str(report)]) == code
    told, after = capsys.readouterr().out.splitlines()[2:4]
    words = [word for word in told.split() if word != "s" and not word.replace(".", "").isdigit()]
    assert " ".join(words).startswith(line)
    assert after.split()[:2] == ["after", "ok"]
    record = json.loads(report.read_text("utf-8"))["parts"][0]
    assert line.startswith(f"part {record['verdict']}")


def test_what_was_measured_before_time_was_up_is_kept() -> None:
    """If this fails, a part that is stopped in its last second has measured nothing."""
    printed = '[{"a": 1}]\nnote\n[{"a": 1}, {"a'
    code = f"import time; print({printed!r}, flush=True); time.sleep(60)"
    outcome = check.run(python(code, "timings", 5.1), monotonic() + 60)
    assert outcome.verdict == check.LATE
    assert check._figures("timings", [outcome]) == [{"a": 1}]
    assert check._figures("kernels", [outcome]) == []


def test_what_a_part_has_started_ends_with_it(tmp_path: Path) -> None:
    """If this fails, a part whose time was up goes on beside the next one, on the same GPU."""
    sleeper = "import time; time.sleep(60)"
    code = (
        "import subprocess, sys, time\n"
        f"print(subprocess.Popen([sys.executable, '-c', {sleeper!r}]).pid, flush=True)\n{sleeper}"
    )
    outcome = check.run(python(code, seconds=5.1), monotonic() + 60)
    child, deadline = Path("/proc", outcome.output.strip()), monotonic() + 10
    while child.exists() and "Z" not in (child / "stat").read_text("utf-8").split()[2]:
        assert monotonic() < deadline
        sleep(0.05)


def test_a_report_without_a_folder_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, the figures of a whole run are lost for a typing error."""
    with pytest.raises(SystemExit) as ended:
        main(["--device", "cpu", "--json", "/no/such/report.json"])
    assert ended.value.code == 2
    assert "there is no folder /no/such for the report" in capsys.readouterr().err


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
    timings = list(measure("cpu", quick=True))
    assert [(t.kernels, t.graphs) for t in timings] == [("eager", "off"), ("eager", "on")]
    assert all(0 < t.prepare < t.step and 0 < t.forward < t.step for t in timings)


def test_what_is_missing_is_one_sentence() -> None:
    """If this fails, whoever lacks a package on the GPU's machine gets a stack trace.

    `-S`: a Python without any package but the standard library.
    """
    command = [sys.executable, "-S", "-m", "draftproof.fuzz.gpu_check"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / ".typing")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"gpu-check: this Python ({sys.executable}) has no torch, no numpy, no m"
    )
    assert line.endswith(": install what is missing, or bring it along, as docs/gpu.md says")


def test_no_gpu_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, every part fails by itself for want of a GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main([]) == 5
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert "finds no GPU here" in told.err


def test_parts_that_draw_say_what_they_need() -> None:
    """If this fails, a machine without Hypothesis, or pytest, sees failures instead of absences."""
    packages = {part.name: part.packages for part in parts("cuda", False) if part.packages}
    tools = "pytest", "hypothesis"
    assert packages == {"tests": tools, "draft model": tools, "properties": ("hypothesis",)}


@pytest.mark.interpreted
@pytest.mark.parametrize("name", OWN)
def test_parts_of_its_own(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, a part cannot be run, or its figures cannot be shown."""
    assert set(PARTS) == set(OWN)
    assert main([name, "--device", "cpu", "--quick"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    if name in check.MEASURING:
        record = json.loads(last)
        assert record
        outcome = check.Outcome(name, check.OK, 1.0, last, last)
        shown = check.lines({}, [outcome], {name: record})
        assert len(shown) >= 6
        assert "[" not in shown[2]
    else:
        assert last == "4 examples of eager and 4 examples of triton, with graphs"
