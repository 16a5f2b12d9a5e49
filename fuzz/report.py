"""The failure report."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from draftproof.sim.divergence import Divergence
from draftproof.sim.events import Event
from draftproof.sim.traces import Trace

LAST_EVENTS = 5
STEP_TIMEOUT = 60.0
"""Seconds that a step may take, unless somebody says."""


def describe(event: Event) -> str:
    """An event in one line, defaults left out."""
    tag = event.__struct_config__.tag
    parts = [
        f"{info.name}={_shown(getattr(event, info.name))}"
        for info in msgspec.structs.fields(event)
        if info.required or getattr(event, info.name) != info.default
    ]
    return " ".join([str(tag), *parts])


def _shown(value: object) -> object:
    """A field; the events of ranks hold events."""
    if isinstance(value, tuple) and any(isinstance(one, Event) for one in value):
        return f"[{'; '.join(describe(one) for one in value)}]"
    return f"({describe(value)})" if isinstance(value, Event) else value


def replay_line(path: Path, oracle: str, step_timeout: float) -> str:
    """The command that shows a failure again: a hang only with the time that it was given."""
    command = f"draftproof replay {shlex.quote(str(path))}"
    if oracle == "hang" and step_timeout != STEP_TIMEOUT:
        command += f" --step-timeout {step_timeout:g}"
    return f"{'replay':<12} {command}"


def failure_report(
    divergence: Divergence, trace: Trace, path: Path | None, step_timeout: float = STEP_TIMEOUT
) -> list[str]:
    """Where, whose, expected, found, the last events, and the command that shows it again."""
    lines = divergence.lines()
    end = len(trace.events) if divergence.event is None else divergence.event + 1
    first = max(0, end - LAST_EVENTS)
    for i, event in enumerate(trace.events[first:end], start=first):
        label = "last events" if i == first else ""
        lines.append(f"{label:<12} {i:>3} {describe(event)}")
    if path is not None:
        lines.append(f"{'trace':<12} {path} ({len(trace.events)} events)")
        lines.append(replay_line(path, divergence.oracle, step_timeout))
    return lines
