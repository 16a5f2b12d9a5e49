"""What a campaign has exercised, and what was not checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from draftproof.reference.vocabulary import UNDONE, ContextRow
from draftproof.sim.journal import Departed, Restarted, Submitted
from draftproof.sim.lockstep import Checked
from draftproof.sim.run import Expected, Run


@dataclass(slots=True)
class Summary:
    """Counts over all cases.

    transitions: (r, r') of a request's consecutive batches; returns: positive, then zero once or
    more, then positive again for one request; accepted: drafts kept -> generation rows.
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
    sampled: int = 0
    padding_rows: int = 0
    idle_steps: int = 0
    returns: int = 0
    departures: Counter[str] = field(default_factory=Counter)
    transitions: Counter[tuple[int, int]] = field(default_factory=Counter)
    accepted: Counter[int] = field(default_factory=Counter)
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
        self._add_steps(steps)

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
            self.sampled += batch.target_probs is not None
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
            before, owners = owners, {slot: lives[name] for name, slot in slots.items()}
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
            f"{self.idle_steps:,} idle",
            f"requests         {self.requests:,}: {gone or 'none departed'}; "
            f"{self.same_ids:,} under an id used before, {self.resets:,} reset",
            f"draft lengths    {len(self.transitions):,} transitions r -> r': {lengths or 'none'}",
            f"                 {self.returns:,} times positive -> zero -> positive",
            f"accepted drafts  {accepted or 'none'}",
            f"slots            {self.slot_reuses:,} reused; {self.padding_rows:,} padding rows",
            f"not checked      {unchecked}",
        ]
        if self.captures or self.replays:
            lines.insert(
                -1, f"graphs           {self.replays:,} replays, {self.captures:,} captures"
            )
        if self.faults_without_seam:
            lines.append(
                f"                 {self.faults_without_seam:,} faults at seams that the "
                "implementation never calls; their cases end there"
            )
        for reason, count in self.refused.most_common():
            lines.append(f"                 {count:,} cases that the factory refused: {reason}")
        return lines


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
