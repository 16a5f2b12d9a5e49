"""Triton is made ready, or its absence explained, by whoever asks for kernels."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
import torch

from draftproof.gpu.kernels.loading import prepare
from draftproof.gpu.worker import make
from draftproof.reference.vocabulary import Collaborators, Config

CHECK = ("-m", "draftproof.fuzz.cli", "check", "--examples", "1", "-o", "kernels=triton")


def outside(*arguments: str, interpret: str | None = None) -> subprocess.CompletedProcess[str]:
    """Python with the environment variable as given, absent for None."""
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    if interpret is not None:
        env["TRITON_INTERPRET"] = interpret
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def worker() -> None:
    make(Config(2, 4, 1, 2), "cpu", Collaborators(print, lambda *_: ([], [])), kernels="triton")


def test_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, whoever lacks Triton gets a stack trace instead of what to install."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ValueError, match="needs Triton, which is not installed: install draftproof"
    ):
        worker()


def test_interpreted_without_being_told() -> None:
    """If this fails, `-o kernels=triton` on a CPU needs an environment variable."""
    done = outside(*CHECK)
    assert done.returncode == 0, done.stderr


def test_triton_that_already_compiles() -> None:
    """If this fails, kernels that cannot run here are launched, or nobody says why not."""
    code = (
        "import triton, torch\n"
        "from draftproof.gpu.kernels.loading import prepare\n"
        "prepare(torch.device('cpu'))\n"
    )
    done = outside("-c", code)
    assert "on cpu needs a process in which Triton interprets kernels, but it was" in done.stderr
    assert outside("-c", code, interpret="1").returncode == 0


def test_a_gpu_is_not_served_by_the_interpreter() -> None:
    """If this fails, a check on a GPU passes without the kernels having run there."""
    with pytest.raises(ValueError, match="on cuda needs a process in which Triton compiles"):
        prepare(torch.device("cuda"))
    code = (
        "import torch; from draftproof.gpu.kernels.loading import prepare\n"
        "prepare(torch.device('cuda'))\n"
    )
    assert "on cuda needs TRITON_INTERPRET unset" in outside("-c", code, interpret="1").stderr
    assert outside("-c", code).returncode == 0
