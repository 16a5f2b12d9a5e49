"""A process that runs `draftproof check` and tells how much memory it has after so many steps."""

from __future__ import annotations

import ctypes
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from draftproof.fuzz.cli import parser
from draftproof.fuzz.commands.check import campaign
from draftproof.fuzz.supervise import Beacon


class Gauge(Beacon):
    """Prints steps and MiB, every so many steps."""

    def __init__(self, path: Path, every: int) -> None:
        super().__init__(path, step_timeout=60.0)
        self.every = every
        self.steps = 0
        self.out = sys.stdout

    def beat(self) -> None:
        """The next step begins."""
        super().beat()
        self.steps += 1
        if self.steps % self.every == 0:
            print(self.steps, in_use(), file=self.out, flush=True)


class _Mallinfo(ctypes.Structure):
    """`struct mallinfo2` of the C library."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def in_use() -> float:
    """MiB that this process has asked the C library for and not given back. Those are all that it
    uses if Python asks there too (PYTHONMALLOC=malloc)."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Mallinfo
    told = mallinfo()
    asked: int = told.uordblks + told.hblkhd
    return asked / 2**20


def resident() -> float:
    """MiB of this process that are in memory."""
    status = Path("/proc/self/status").read_text("utf-8")
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None, "Linux tells it there"
    return int(found[1]) / 1024


def main() -> int:
    """Arguments: how many steps, every how many to tell, and more words for `check`."""
    steps, every = map(int, sys.argv[1:3])
    with TemporaryDirectory() as scratch:
        words = ["check", "--steps", str(steps), "--trace-dir", str(Path(scratch) / "traces")]
        words += sys.argv[3:]
        gauge = Gauge(Path(scratch) / "case.jsonl", every)
        try:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                return campaign(parser().parse_args(words), gauge)
        finally:
            gauge.close()


if __name__ == "__main__":
    sys.exit(main())
