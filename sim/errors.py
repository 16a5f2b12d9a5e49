"""Errors for people: what is wrong, where, and what to do. Each has its exit code."""

from __future__ import annotations

MISSED = 6
"""Exit code of a command that finds nothing wrong, but has not met all that it has to meet."""


class DraftproofError(Exception):
    """Ends a command with one clear message and `exit_code`."""

    exit_code = 2


class UsageError(DraftproofError):
    """Wrong usage: an option, a configuration, a directory that cannot be written."""


class FileError(DraftproofError):
    """A file that cannot be read, is torn, or is of an unknown format or version."""

    exit_code = 3


class ImplementationError(DraftproofError):
    """An implementation that cannot be loaded, or whose process died."""

    exit_code = 4


class NoVerdict(DraftproofError):
    """Time ran out before the minimum was checked."""

    exit_code = 5


class InjectedFault(Exception):
    """Raised by the harness at a seam, on purpose. A worker lets it pass."""


class InjectedOutOfMemory(InjectedFault, MemoryError, RuntimeError):
    """An allocation that fails, as Python and as torch tell it."""


class InjectedHang(BaseException):
    """A step that hung and was ended from outside, on purpose. Not an Exception, as `StepTimeout`.

    A worker lets it pass.
    """


INJECTED = (InjectedFault, InjectedHang)


class StepTimeout(BaseException):
    """A worker did not return from a step in time. Not an Exception: nobody should swallow it."""
