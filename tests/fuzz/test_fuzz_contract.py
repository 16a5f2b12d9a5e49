"""Whoever breaks the contract of draft workers is told so when the worker is loaded, by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import draftproof

HEAD = """
import torch
from draftproof.gpu.options import device_named, read_options
from draftproof.gpu.worker import DSparkWorker

def of(kind, config, device, collaborators):
    return kind(config, device_named(device), collaborators, read_options())

def make(config, device, collaborators):
    return of(DSparkWorker, config, device, collaborators)
"""

BROKEN = {
    "subclass": (
        """
class Own(DSparkWorker):
    def forward(self, batch):
        return self._forward_impl(batch)
""",
        "importing it raised TypeError: Own defines forward, which belongs to DraftWorker: "
        "implement Own._forward_impl(batch) -> StepResult",
    ),
    "mixin": (
        """
class Logging:
    def forward(self, batch):
        return super().forward(batch)

class Mixed(Logging, DSparkWorker):
    pass
""",
        "importing it raised TypeError: Logging, a base of Mixed, defines forward, which belongs "
        "to DraftWorker: implement Logging._forward_impl(batch) -> StepResult",
    ),
    "bare": (
        """
from draftproof.gpu.contract import DraftWorker

class Bare(DraftWorker):
    pass

def make(config, device, collaborators):
    return Bare(config, collaborators)
""",
        "its factory raised TypeError: Bare has no _forward_impl: "
        "implement Bare._forward_impl(batch) -> StepResult",
    ),
    "wrapper": (
        """
class Wrapper:
    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def forward(self, batch):
        return self.inner._forward_impl(batch)

inner = make

def make(*given):
    return Wrapper(inner(*given))
""",
        "Wrapper is no DraftWorker, so nothing cleans up behind its forward: derive it from "
        "DraftWorker and implement Wrapper._forward_impl(batch) -> StepResult",
    ),
    "stub": (
        """
correct = make

def make(*given):
    worker = correct(*given)
    worker.forward = worker._forward_impl
    return worker
""",
        "forward was replaced on an instance of DSparkWorker: "
        "replace DSparkWorker._forward_impl instead",
    ),
    "patched": (
        """
class Late(DSparkWorker):
    pass

Late.forward = DSparkWorker._forward_impl

def make(config, device, collaborators):
    return of(Late, config, device, collaborators)
""",
        "Late defines forward, which belongs to DraftWorker: "
        "implement Late._forward_impl(batch) -> StepResult",
    ),
    "half": (
        """
class Half:
    def prepare(self, batch): ...
    def forward(self, batch): ...

def make(*given):
    return Half()
""",
        "Half has no method state(): implement Half.state() -> WorkerState",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_worker_that_breaks_the_contract_is_told_what_to_implement(
    how: str, tmp_path: Path
) -> None:
    """If this fails, a worker whose forward cleans nothing up is checked as if it did."""
    source, told = BROKEN[how]
    (tmp_path / "theirs.py").write_text(HEAD + source)
    done = draftproof("check", "--implementation", "theirs.py:make", "--examples", 1, cwd=tmp_path)
    assert done.returncode == 4, done.stdout + done.stderr
    assert done.stderr == f"draftproof: implementation 'theirs.py:make': {told}\n"


def test_a_worker_that_keeps_it_is_checked(tmp_path: Path) -> None:
    """If this fails, every worker is refused."""
    (tmp_path / "theirs.py").write_text(HEAD)
    done = draftproof("check", "--implementation", "theirs.py:make", "--examples", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
