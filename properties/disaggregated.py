"""What must hold between a context server and a generation server."""

from __future__ import annotations

from draftproof.properties.broken import broken
from draftproof.reference.vocabulary import UNDONE, ContextRow
from draftproof.sim.disaggregated import Servers
from draftproof.sim.journal import Delivered, Fed, Submitted
from draftproof.sim.run import Run


def check_servers(servers: Servers) -> int:
    """Both servers' journals together. Returns how many requests were looked at.

    Every request that arrived, however often, is served once; the generation server itself computes
    every position that did not come along; and both servers say the same first token, if the target
    is its own master. Raises the Divergence of I13, I21 or I7.
    """
    _once(servers)
    first = _first_tokens(servers.context)
    fed, told = _first_positions(servers.generation), _first_tokens(servers.generation)
    positions: dict[int, int] = {}
    for arrival in servers.arrived:
        positions.setdefault(arrival.submit.request, arrival.positions)
    for ordinal, came in positions.items():
        own, asked = ordinal + 1, servers.asked[ordinal]
        start = fed.get(own)
        if start is not None and start > min(came, asked.prompt - 1):
            wanted = f"computed from position {min(came, asked.prompt - 1)}, as the rest never came"
            broken("I21", wanted, f"from position {start}", incarnation=own)
        both = own in told and own in first
        if servers.config.target == "autonomous" and both and told[own] != first[own]:
            broken("I7", f"{first[own]}, as on the context server", told[own], incarnation=own)
    return len(positions)


def _once(servers: Servers) -> None:
    """A transfer that is repeated makes no second request."""
    seen: set[int] = set()
    for entry in servers.generation.journal.entries:
        if isinstance(entry, Submitted):
            if entry.event.request in seen:
                broken("I13", "one request", "the same once more", incarnation=entry.incarnation)
            seen.add(entry.event.request)
    missing = {arrival.submit.request for arrival in servers.arrived} - seen
    if missing:
        broken("I13", "every arrival a request", f"none for {sorted(missing)}")


def _first_positions(run: Run) -> dict[int, int]:
    """Where each incarnation was first fed."""
    found: dict[int, int] = {}
    for entry in run.journal.entries:
        if isinstance(entry, Fed) and entry.batch.mode not in UNDONE:
            for row in entry.batch.rows:
                first = row.first_position if isinstance(row, ContextRow) else row.position
                found.setdefault(row.incarnation, first)
    return found


def _first_tokens(run: Run) -> dict[int, int]:
    """The first token that each incarnation was given."""
    found: dict[int, int] = {}
    for entry in run.journal.entries:
        if isinstance(entry, Delivered):
            found.setdefault(entry.incarnation, entry.tokens[0])
    return found
