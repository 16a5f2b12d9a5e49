"""What a campaign has exercised, and what was not checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from draftproof.fuzz.refused import refusals
from draftproof.properties.counted import Counted
from draftproof.reference.vocabulary import NO_PENALTIES, UNDONE, ContextRow
from draftproof.sim.journal import (
    Answered,
    Delivered,
    Departed,
    Entry,
    Fed,
    Look,
    Restarted,
    Submitted,
)
from draftproof.sim.lockstep import Checked
from draftproof.sim.run import Expected, Run
from draftproof.sim.statistics import Counts


@dataclass(slots=True)
class Summary:
    """Counts over all cases.

    transitions: (r, r') of a request's consecutive batches; returns: positive, then zero once or
    more, then positive again for one request; accepted: drafts kept -> generation rows.
    replays, captures: steps in these modes, whatever the worker makes of them.
    planned: steps whose windows the worker chose; snapshots: how old the host's were, in steps
    scheduled by confidence; no_budget: those whose budget was 0; late: steps that were under way
    when tokens of the last one were delivered.
    counts, wasted: the engines' statistics (semantics, section 19), as their journals have them.
    """

    cases: int = 0
    steps: int = 0
    requests: int = 0
    mixed: int = 0
    slot_reuses: int = 0
    same_ids: int = 0
    resets: int = 0
    warmups: int = 0
    captures: int = 0
    replays: int = 0
    failed_steps: int = 0
    ragged: int = 0
    planned: int = 0
    no_budget: int = 0
    late: int = 0
    sampled: int = 0
    guided: int = 0
    penalised: int = 0
    padding_rows: int = 0
    idle_steps: int = 0
    returns: int = 0
    snapshots: Counter[str] = field(default_factory=Counter)
    departures: Counter[str] = field(default_factory=Counter)
    transitions: Counter[tuple[int, int]] = field(default_factory=Counter)
    accepted: Counter[int] = field(default_factory=Counter)
    counts: Counts = field(default_factory=lambda: Counts.none(0))
    wasted: int = 0
    not_checked: set[str] = field(default_factory=set)
    faults_without_seam: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def add(self, run: Run, checked: Checked) -> None:
        """Count one case that passed, as far as it was checked."""
        self.cases += 1
        self.steps += checked.steps
        self.not_checked |= checked.not_checked
        self.faults_without_seam += checked.faults_without_seam
        steps, entries = run.steps, run.journal.entries
        if checked.steps < len(steps):
            steps = steps[: checked.steps]
            entries = entries[: steps[-1].entries if steps else 0]
        ids: set[int] = set()
        for entry in entries:
            if isinstance(entry, Submitted):
                self.requests += 1
                self.same_ids += entry.request_id in ids
                ids.add(entry.request_id)
            elif isinstance(entry, Departed):
                self.departures[entry.reason] += 1
            elif isinstance(entry, Restarted):
                self.resets += 1
            elif isinstance(entry, Fed) and entry.look is not None:
                self._add_look(entry.look)
        self.late += count_late(entries)
        self._add_counts(run.config.max_draft_len, entries)
        self._add_steps(steps)

    def _add_look(self, look: Look) -> None:
        ready = look.confidences is not None
        self.snapshots[f"{look.age} old" if ready else "not ready"] += 1
        self.no_budget += ready and not look.budget

    def _add_counts(self, positions: int, entries: Sequence[Entry]) -> None:
        counted = Counted(positions)
        for entry in entries:
            counted.see(entry)
        self.counts.include(counted.statistics.total)
        self.wasted += counted.wasted

    def _add_steps(self, steps: Sequence[Expected]) -> None:
        lengths: dict[int, list[int]] = {}
        used: set[int] = set()
        owners: dict[int, int] = {}  # slot -> incarnation
        for expected in steps:
            batch, result = expected.batch, expected.result
            if batch.mode in UNDONE:
                self.warmups += 1
                self.captures += batch.mode == "capture"
                continue
            self.replays += batch.mode == "replay"
            self.failed_steps += result is None
            self.mixed += bool(batch.contexts) and bool(batch.generations)
            self.ragged += batch.verify_lens is not None
            self.planned += batch.verify_budget is not None
            self.sampled += batch.target_probs is not None
            self.guided += any(row.grammar for row in batch.rows)
            self.penalised += any(row.penalties != NO_PENALTIES for row in batch.rows)
            for b, row in enumerate(batch.rows):
                if row.incarnation == 0:
                    self.padding_rows += row.request_id != 0
                    self.idle_steps += row.request_id == 0
                    continue
                lengths.setdefault(row.incarnation, []).append(batch.draft_len)
                if result is not None and not isinstance(row, ContextRow):
                    self.accepted[result.new_tokens_lens[b] - 1] += 1
            lives = {row.request_id: row.incarnation for row in batch.rows}
            slots = expected.state.slots or {}
            before, owners = (
                owners,
                {slot: lives.get(name, owners.get(slot, 0)) for name, slot in slots.items()},
            )
            for slot, incarnation in owners.items():
                if before.get(slot) != incarnation:
                    self.slot_reuses += slot in used
                    used.add(slot)
        for history in lengths.values():
            self.transitions.update(pairwise(history))
            self.returns += returns(history)

    def lines(self) -> list[str]:
        """For people."""
        kinds = Counter[str]()
        for (before, after), count in self.transitions.items():
            kinds[_kind(before, after)] += count
        accepted = "  ".join(f"{n}: {count:,}" for n, count in sorted(self.accepted.items()))
        gone = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.departures.items()))
        lengths = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
        unchecked = ", ".join(sorted(self.not_checked)) or "nothing"
        lines = [
            f"cases            {self.cases:,}",
            f"steps            {self.steps:,}: {self.mixed:,} mixed, {self.ragged:,} ragged, "
            f"{self.sampled:,} sampled, {self.warmups:,} warm-ups, {self.failed_steps:,} failed, "
            f"{self.idle_steps:,} idle, {self.late:,} late",
            f"requests         {self.requests:,}: {gone or 'none departed'}; "
            f"{self.same_ids:,} under an id used before, {self.resets:,} reset",
            f"draft lengths    {len(self.transitions):,} different transitions r -> r': "
            f"{lengths or 'none'}",
            f"                 {self.returns:,} times positive -> zero -> positive",
            f"accepted drafts  {accepted or 'none'}",
            *count_lines(self.counts, self.wasted),
            f"slots            {self.slot_reuses:,} reused; {self.padding_rows:,} padding rows",
            f"not checked      {unchecked}",
        ]
        if self.guided or self.penalised:
            told = f"{self.guided:,} steps with a grammar, {self.penalised:,} with penalties"
            lines.insert(-1, f"guided           {told}")
        if self.captures or self.replays:
            told = f"{self.replays:,} steps in mode replay, {self.captures:,} in mode capture"
            lines.insert(-1, f"graph modes      {told}; by a graph if the worker has them")
        if self.snapshots:
            ages = ", ".join(f"{count:,} {age}" for age, count in sorted(self.snapshots.items()))
            lines.insert(
                -1,
                f"by confidence    {self.planned:,} steps planned by the worker, "
                f"{self.no_budget:,} budgets of 0; snapshots: {ages}",
            )
        if self.faults_without_seam:
            lines.append(
                f"                 {self.faults_without_seam:,} faults at seams that the "
                "implementation never calls; their cases end there"
            )
        lines += refusals(self.refused)
        return lines


def count_lines(counts: Counts, wasted: int) -> list[str]:
    """Statistics for people."""
    drafted, verified, accepted = map(sum, (counts.drafted, counts.verified, counts.accepted))
    length, rates = counts.acceptance_length(), enumerate(counts.rates(), 1)
    told = [f"{number}: {rate:.0%}" for number, rate in rates if rate is not None]
    return [
        f"drafts           {drafted:,} drafted, {verified:,} verified, {accepted:,} accepted; "
        f"{wasted:,} verified for nobody",
        f"                 accepted by position  {'  '.join(told) or 'none'}",
        f"                 mean acceptance length {'none' if length is None else f'{length:.2f}'}",
        f"tokens           {counts.emitted:,} emitted in {counts.results:,} results, "
        f"{counts.dropped:,} dropped behind an end, {counts.guessed:,} placeholders confirmed",
    ]


def count_late(entries: Sequence[Entry]) -> int:
    """Steps that were already under way when tokens of the last one were delivered."""
    count, flying = 0, False
    for entry in entries:
        if isinstance(entry, Fed | Answered):
            flying = isinstance(entry, Fed)
        elif isinstance(entry, Delivered) and flying:
            count, flying = count + 1, False
    return count


def returns(history: list[int]) -> int:
    """How often draft lengths went positive, zero at least once, and positive again."""
    count, seen_positive, in_gap = 0, False, False
    for r in history:
        if r:
            count += seen_positive and in_gap
            seen_positive, in_gap = True, False
        else:
            in_gap = seen_positive
    return count


def _kind(before: int, after: int) -> str:
    if before == after:
        return "same"
    if not after:
        return "to zero"
    if not before:
        return "from zero"
    return "up" if after > before else "down"
