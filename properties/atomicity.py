"""What a failed or undone step may leave behind: nothing (semantics, section 16, rows 5 to 7; I19).

All three relations let a worker be its own witness, so they see what no field of the state shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from draftproof.properties.broken import broken
from draftproof.properties.relations import cut, idle, view
from draftproof.reference.vocabulary import UNDONE, Batch, Config, StepResult, WorkerState
from draftproof.sim.packing import isolated
from draftproof.sim.players import MakeWorker, Player
from draftproof.sim.run import Expected, Run
from draftproof.sim.shapes import listed

Sites = Counter[tuple[str, str]]
"""How often something was compared behind a fault, by its place and kind."""


def check_fresh(run: Run, make: MakeWorker) -> Sites:
    """After every failed step, whoever is admitted later is served as by a worker that is new.

    One worker lives through the whole run. Beside it a new one takes over whenever a step has
    failed, as nobody lives on then, and is spared the warm-ups. Returns how many rows of later
    requests were compared, behind which fault. Raises the Divergence of I19.
    """
    survivor, compared, site = Player(run.config, make), Sites(), ("", "")
    fresh: Player | None = None
    for step in run.steps:
        result = survivor.step(step)
        if step.batch.mode in UNDONE:
            continue
        found = None if fresh is None else fresh.step(step)
        if step.result is None:
            fresh, site = Player(run.config, make), (step.fault or "", step.kind)
        elif fresh is not None:
            compared[site] += _alike(run.config, step, (result, survivor), (found, fresh))
    return compared


def check_later(run: Run, make: MakeWorker) -> Sites:
    """Behind a fault that fails nobody, as a cancellation in mid-step or a result that is lost,
    whoever is admitted later is served as by a worker that is new and serves nobody else.

    Returns how many of those rows were compared, behind which fault. Raises the Divergence of I19.
    """
    compared, seen, known = Sites(), list[Seen](), {0}
    for number, step in enumerate(run.steps):
        if step.batch.mode in UNDONE:
            continue
        known |= {row.incarnation for row in step.batch.rows}
        if step.fault is not None and step.result is not None:
            seen = seen or _lived(run, make)
            rest = zip(run.steps[number + 1 :], seen[number + 1 :], strict=True)
            compared[step.fault, step.kind] += _later(Player(run.config, make), rest, set(known))
    return compared


def check_undone(run: Run, make: MakeWorker) -> Sites:
    """Warm-ups and captures, failed ones too, change nothing that any request is given.

    The other worker is spared them. Returns how many rows were compared, behind which fault in a
    warm-up, if any. Raises the Divergence of I19.
    """
    survivor, other, compared = Player(run.config, make), Player(run.config, make), Sites()
    site: tuple[str, str] | None = None
    for step in run.steps:
        result = survivor.step(step)
        if step.batch.mode in UNDONE:
            site = (step.fault or "", step.kind)
            continue
        found = other.step(step)
        if site is not None and step.result is not None:
            compared[site] += _alike(run.config, step, (result, survivor), (found, other))
    return compared


Seen = dict[int, dict[str, Any]]
"""What a step said about each request, by incarnation."""


def _lived(run: Run, make: MakeWorker) -> list[Seen]:
    """What a worker that lives through the whole run says in every step."""
    survivor, seen = Player(run.config, make), list[Seen]()
    for step in run.steps:
        result, said = survivor.step(step), dict[int, dict[str, Any]]()
        if result is not None and step.batch.mode not in UNDONE:
            state = survivor.state()
            for b, row in enumerate(step.batch.rows):
                if row.incarnation:
                    said[row.incarnation] = _aged(run.config, step.batch, b, result, state)
        seen.append(said)
    return seen


def _later(new: Player, steps: Iterable[tuple[Expected, Seen]], known: set[int]) -> int:
    """Serve only those who are not known; a step of nobody, or that fails, becomes an idle one."""
    compared = 0
    for step, seen in steps:
        batch = step.batch
        if batch.mode in UNDONE or (step.result is None and step.fault in ("start", "assign")):
            continue
        rows = [b for b, row in enumerate(batch.rows) if row.incarnation not in known]
        rows = rows if step.result is not None else []
        own = cut(new.config, batch, rows) if rows else idle(new.config, batch)
        new.worker.prepare(isolated(own))
        result, state = new.worker.forward(isolated(own)), new.state()
        for i, b in enumerate(rows):
            wanted = _aged(new.config, own, i, result, state)
            _same(step.batch, b, wanted, seen[batch.rows[b].incarnation])
        compared += len(rows)
    return compared


def _same(batch: Batch, b: int, wanted: dict[str, Any], got: dict[str, Any]) -> None:
    for name, value in wanted.items():
        if got.get(name) != value:
            told = f"{name}, as of a new worker: {value}"
            broken("I19", told, got.get(name), step=batch.step, row=b, of=batch.rows[b])


Side = tuple[StepResult | None, Player]


def _alike(config: Config, step: Expected, survivor: Side, fresh: Side) -> int:
    """Every request of the step, wherever its slot is. Returns how many there are."""
    batch = step.batch
    if survivor[0] is None or fresh[0] is None:
        sides = ["a failure" if side[0] is None else "a result" for side in (fresh, survivor)]
        if sides[0] != sides[1]:
            broken("I19", sides[0], sides[1], step=batch.step)
        return 0
    states = survivor[1].state(), fresh[1].state()
    real = [b for b, row in enumerate(batch.rows) if row.incarnation]
    for b in real:
        wanted = _aged(config, batch, b, fresh[0], states[1])
        got = _aged(config, batch, b, survivor[0], states[0])
        _same(batch, b, wanted, got)
    for side in (survivor, fresh):
        if side[1].crossed != survivor[1].crossed:
            broken("I19", survivor[1].crossed, side[1].crossed, step=batch.step)
    return len(real)


def _aged(
    config: Config, batch: Batch, b: int, result: StepResult, state: WorkerState
) -> dict[str, Any]:
    """What a step says about one request; a stamp by its age, for a new worker counts from 0."""
    seen = view(config, batch, b, result, state)
    if "confidence_stamp" in seen and state.draft_seq is not None:
        seen["confidence_stamp"] = state.draft_seq - seen["confidence_stamp"]
    for name in ("token_counts", "prompt_seen", "grammar_depth"):
        if getattr(state, name) is not None:
            seen[name] = listed(getattr(state, name))[batch.rows[b].seq_slot]
    return seen
