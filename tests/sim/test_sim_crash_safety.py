"""A process that is killed while it saves, and processes that must agree byte by byte."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from batches import small

from draftproof.reference.config import checked
from draftproof.sim.events import Step
from draftproof.sim.traces import Trace, load, save

KILLED_WHILE = {
    "writing": """
import io, pathlib
whole = pathlib.Path.open
def torn(self, *arguments, **options):
    file = whole(self, *arguments, **options)
    class Torn:
        def __enter__(self): return self
        def __exit__(self, *error): pass
        def write(self, data):
            file.write(data[: len(data) // 2]); file.flush(); die()
    return Torn()
pathlib.Path.open = torn
""",
    "syncing": """
os.fsync = lambda descriptor: die()
""",
    "replacing": """
import pathlib
pathlib.Path.replace = lambda self, target: die()
""",
    "cleaning up": """
import pathlib
whole = pathlib.Path.replace
def replaced(self, target):
    whole(self, target); die()
pathlib.Path.replace = replaced
""",
}

OVERWRITE = """
import os, signal, sys
from pathlib import Path
from draftproof.sim.events import Step, Submit
from draftproof.sim.traces import cut, load, save

def die():
    os.kill(os.getpid(), signal.SIGKILL)

path = Path(sys.argv[1])
trace = cut(load(path), [Submit(0, limit=9)] * 100)
{intercept}
save(trace, path)
"""


@pytest.mark.parametrize("moment", KILLED_WHILE)
def test_a_file_survives_a_process_that_is_killed_while_overwriting_it(
    tmp_path: Path, moment: str
) -> None:
    """If this fails, a crash destroys the only trace of a failure."""
    path = tmp_path / "t.jsonl"
    old = Trace(checked(small()), (Step(),))
    save(old, path)
    code = OVERWRITE.format(intercept=KILLED_WHILE[moment])
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, b"")
    found = load(path)
    assert len(found.events) == (100 if moment == "cleaning up" else 1)
    assert list(tmp_path.glob("*.jsonl")) == [path], "leftovers do not pass for traces"


BYTES = """
import sys
from draftproof.sim.choices import Seeded
from draftproof.sim.configs import choose_config
from draftproof.sim.run import simulate
from draftproof.sim.traces import Trace, encode

for seed in range(20):
    choices = Seeded(seed)
    run = simulate(choose_config(choices), choices, 40)
    trace = Trace(run.config, tuple(run.events), options={w: w for w in ("z", "q", "a")})
    sys.stdout.buffer.write(encode(trace))
    for expected in run.steps:
        sys.stdout.write(f"{expected.batch} {expected.result} {expected.state}")
        sys.stdout.flush()
"""


def test_a_seed_gives_the_same_bytes_whatever_the_hash_seed() -> None:
    """If this fails, schedules depend on the order of a set, and a seed names nothing."""
    once, again = (
        subprocess.run(
            [sys.executable, "-c", BYTES],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    )
    assert once == again
    assert once.count(b"draftproof-trace") == 20
