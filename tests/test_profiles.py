"""The Hypothesis profile of CI: the same examples in every run, others for every parameter."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent

SHARDED = """
import pathlib, pytest
from hypothesis import given, strategies as st

@pytest.mark.parametrize("shard", [0, 1])
@given(x=st.integers(0, 2**64))
def test_draws(shard, x):
    with pathlib.Path(f"drawn{shard}").open("a") as file:
        print(x, file=file)
"""


def drawn(folder: Path, *options: str) -> list[str]:
    """What each shard draws in a run of its own, in CI."""
    folder.mkdir()
    (folder / "test_sharded.py").write_text(SHARDED, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider"]
    env = {**os.environ, "CI": "1", "PYTHONPATH": str(TESTS)}
    subprocess.run([*command, *options], cwd=folder, env=env, check=True, capture_output=True)
    return [(folder / f"drawn{shard}").read_text("utf-8") for shard in (0, 1)]


def test_ci_draws_the_same_in_every_run_and_differently_in_every_shard(tmp_path: Path) -> None:
    """If this fails, CI is flaky, or its shards all try the same examples."""
    once, again = drawn(tmp_path / "a"), drawn(tmp_path / "b", "-n", "2")
    assert once == again
    assert once[0] != once[1]
    assert min(len(text.split()) for text in once) >= 100
