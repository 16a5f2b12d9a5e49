"""Whatever goes wrong in an implementation is told as a Divergence: what it raises, and hangs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from draftproof.sim.divergence import Divergence
from draftproof.sim.errors import INJECTED, StepTimeout


@contextmanager
def blamed(timeout: float, wanted: str) -> Iterator[None]:
    """Whatever goes wrong in here, or takes too long, is the implementation's doing.

    timeout: seconds, within `alarm`; 0 for none; wanted: what should have come of it. Injected
    faults pass, and so does Ctrl-C.
    """
    try:
        if timeout:
            signal.setitimer(signal.ITIMER_REAL, timeout)
        yield
    except INJECTED:
        raise
    except StepTimeout as error:
        raise Divergence("hang", "timeout", f"a step within {timeout:g} s", "no answer") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # that of a cancelled task or of a panic is no Exception
        raise Divergence("exception", type(error).__name__, wanted, _text(error)) from error
    finally:
        if timeout:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _text(error: BaseException) -> str:
    """What an exception says, as text that can be printed."""
    try:
        return str(error).encode("utf-8", "backslashreplace").decode()
    except Exception:  # noqa: BLE001 - its own method fails
        return "(an exception that cannot be told)"


@contextmanager
def alarm() -> Iterator[None]:
    """When a timer runs out in here, StepTimeout is raised."""

    def expired(signum: int, frame: object) -> None:
        raise StepTimeout

    previous = signal.signal(signal.SIGALRM, expired)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, previous)
