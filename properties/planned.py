"""Verify windows that follow from confidences (semantics, section 14), over journal and states.

Both sides of a lockstep get the windows that the engine and the model agree on, and how many drafts
a step verifies is the engine's own choice, so here everything is worked out anew: whose confidences
are known, what budget they call for, and which drafts it goes to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp, isnan

from draftproof.properties.broken import broken
from draftproof.properties.windows import LEAST, allotted, captured_shape, limits, padded, survivals
from draftproof.reference.vocabulary import (
    NEUTRAL_LOGIT,
    UNDONE,
    Batch,
    Config,
    GenerationRow,
    WorkerState,
)
from draftproof.sim.events import AnyEvent, Step
from draftproof.sim.journal import Answered, Asked, Entry, Fed, Look

LAST_BIT = 2.0**-22
"""Sigmoids of float32 numbers are compared with this, since their last bit is nobody's business."""

ROUNDING = Fraction(1, 2**40)
"""Relative; values of budgets are sums of floats, which may round in any order."""

Row = Sequence[float]


@dataclass(frozen=True, slots=True)
class Drafted:
    """What a step has drafted: logits by incarnation, and the slots where they stand."""

    logits: dict[int, Row]
    slots: dict[int, int]


class Plans:
    """A watch over one run (`draftproof.sim.lockstep.Watch`).

    drafted: what the last steps have drafted, the newest first; None for one that failed.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.event: AnyEvent | None = None
        self.batch: Batch | None = None
        self.answered = False
        self.drafted: list[Drafted | None] = []

    def step(self, entries: Sequence[Entry], state: WorkerState | None) -> None:
        """See what the journal gained, and the state after it. Raises Divergence."""
        if not self.config.confidence_scheduling:
            return
        for entry in entries:
            if isinstance(entry, Asked):
                self.event = entry.event
            elif isinstance(entry, Fed):
                self.batch = entry.batch
                if entry.batch.mode not in UNDONE and isinstance(self.event, Step):
                    self._check(entry, entry.batch, self.event)
            elif isinstance(entry, Answered):
                self.answered = entry.result is not None
        if state is not None and self.batch is not None and self.batch.mode not in UNDONE:
            self._remember(self.batch, state)

    def _remember(self, batch: Batch, state: WorkerState) -> None:
        slots, table = state.slots, state.confidence_logits
        assert slots is not None and table is not None
        newest = None
        if self.answered:
            rows = real_rows(batch) if batch.draft_len else []
            places = {row.incarnation: slots[row.request_id] for row in rows}
            newest = Drafted({own: table[slot] for own, slot in places.items()}, places)
        self.drafted = [newest, *self.drafted][:3]

    def _check(self, fed: Fed, batch: Batch, event: Step) -> None:
        whole_blocks = batch.draft_len == self.config.max_draft_len
        idle = not any(row.incarnation for row in batch.rows)
        if batch.rank_rows is not None and idle and whole_blocks:
            self._idle(batch)
            return
        asked = event.age is not None and not event.windows and whole_blocks
        if (fed.look is not None) != asked:
            broken("scheduling", f"by confidence: {asked}", fed.look)
        if fed.look is None or fed.look.confidences is None:
            self._uniform(fed.look, batch, event)
            return
        old = self._old(event.age)
        if old is None:
            broken("snapshot", "one that is not ready", fed.look)
        self._snapshot(old, batch, fed.look.confidences)
        self._budget(event, fed.look.budget, fed.look.confidences)
        if batch.contexts:
            if batch.verify_budget is not None or batch.verify_lens is None:
                broken("scheduling", "the host's windows beside contexts", batch.verify_lens)
            self._windows(batch, fed.look.budget, fed.look.confidences)
        else:
            self._planned(batch, event, fed.look)

    def _uniform(self, look: Look | None, batch: Batch, event: Step) -> None:
        if batch.verify_budget is not None:
            broken("scheduling", "no plan", f"a budget of {batch.verify_budget}")
        if look is not None and batch.verify_lens is not None:
            broken("snapshot", "uniform windows without one", batch.verify_lens)
        if look is not None and self._old(event.age) is not None:
            broken("snapshot", "one that is ready", look)

    def _idle(self, batch: Batch) -> None:
        """Nobody's confidences are known on an idle rank: it follows its peers (ranks.py)."""
        if batch.verify_budget is None:
            if batch.verify_lens not in (None, (1,) * len(batch.generations)):
                broken("windows", "an anchor alone for nobody", batch.verify_lens)
            return
        if batch.verify_budget or batch.verify_bucket is None:
            told = f"{batch.verify_budget}, {batch.verify_bucket}"
            broken("budget", "no draft of an idle rank, and a bucket", told)
        self._windows(batch, 0, [])

    def _old(self, age: int | None) -> Drafted | None:
        """What was drafted so many steps before the drafts that are verified now."""
        return self.drafted[age] if age and age < len(self.drafted) else None

    def _snapshot(self, old: Drafted, batch: Batch, found: Sequence[Row]) -> None:
        """The host's confidences are those of these very requests, of that very step."""
        rows = real_rows(batch)
        if len(found) != len(rows):
            broken("snapshot", f"{len(rows)} rows", len(found))
        for row, own in zip(rows, found, strict=True):
            self._confidences("snapshot", row, old.logits.get(row.incarnation), own)

    def _confidences(self, what: str, row: GenerationRow, logits: Row | None, found: Row) -> None:
        k, temperatures = self.config.max_draft_len, self.config.sts_temperatures
        logits = [NEUTRAL_LOGIT] * k if logits is None else logits
        scales = temperatures or [1.0] * k
        wanted = [1 / (1 + exp(-x / t)) for x, t in zip(logits, scales, strict=True)]
        if not all(abs(x - y) <= LAST_BIT for x, y in zip(wanted, found, strict=True)):
            broken(what, f"confidences {wanted}", list(found), of=row)

    def _budget(self, event: Step, found: int, rows: Sequence[Row]) -> None:
        """A fixed budget, else the smallest of the best ones, else what was asked for."""
        config = self.config
        if not self._profile() or config.early_stopping:
            fixed = event.budget if config.verify_budget is None else config.verify_budget
            if found != fixed:
                broken("budget", fixed, found)
            return
        values = self._values(rows)
        if not found < len(values):
            broken("budget", f"0..{len(values) - 1}", found)
        best = max(values)
        if values[found] * (1 + ROUNDING) < best:
            broken("budget", f"one worth {float(best)} tokens a second", float(values[found]))
        if values[found] in values[:found]:
            broken("budget", f"the smallest of its value, {values.index(values[found])}", found)

    def _values(self, rows: Sequence[Row]) -> list[Fraction]:
        """Expected tokens a second with 0, 1, … drafts above the fewest."""
        granted, candidates = allotted(self.config, rows)
        least = len(rows) * (1 + self.config.min_verify_len)
        expected = len(rows) + sum(map(Fraction, granted))
        values = [expected * self._rate(least)]
        for more, survival in enumerate(candidates, start=1):
            expected += Fraction(survival)
            values.append(expected * self._rate(least + more))
        return values

    def _rate(self, tokens: int) -> Fraction:
        """Steps a second: those of the next larger size that was measured, none beyond the last."""
        return next((rate for size, rate in self._profile() if size >= tokens), Fraction(0))

    def _profile(self) -> list[tuple[int, Fraction]]:
        """What was measured, as steps a second; of a cost the nearest double is meant."""
        costs = [(size, 1 / seconds) for size, seconds in self.config.step_costs or ()]
        return [(size, Fraction(rate)) for size, rate in (*(self.config.sps_table or ()), *costs)]

    def _paying(self, rows: Sequence[Row]) -> int:
        """How many drafts above the fewest each raise the tokens a second, up to the first that
        does not; whatever hardly ever survives counts for nothing."""
        granted, candidates = allotted(self.config, rows)
        tokens = len(rows) * (1 + self.config.min_verify_len)
        expected = len(rows) + sum(Fraction(chance) for chance in granted if chance >= LEAST)
        best, paying = float(expected) * float(self._rate(tokens)), 0
        for chance in candidates:
            expected += Fraction(chance)
            value = float(expected) * float(self._rate(tokens + paying + 1))
            if value <= best:
                break
            best, paying = value, paying + 1
        return paying

    def _planned(self, batch: Batch, event: Step, look: Look) -> None:
        """The worker's own windows, from the confidences that both sides were handed."""
        if batch.verify_budget != look.budget:
            broken("budget", look.budget, batch.verify_budget)
        rows, k = real_rows(batch), self.config.max_draft_len
        shape = captured_shape(self.config, (len(rows), look.budget))
        bucket = shape[1] if shape and event.graph else None
        if batch.rank_rows is None and batch.verify_bucket != bucket:  # else: ranks.py
            broken("bucket", bucket, batch.verify_bucket)
        flat = list(batch.confidences or ())
        if len(flat) != (self.config.max_num_requests + 2) * k:
            broken("confidences", "one row per slot, scratch and neutral", len(flat))
        newest = self.drafted[0] if self.drafted else None
        used = []
        for g, row in enumerate(rows):
            known = newest.slots.get(row.incarnation) if newest else None
            own = flat[-k:] if known is None else flat[known * k : (known + 1) * k]
            if event.broken and g == 0 and known is not None:
                if not all(map(isnan, own)):
                    broken("confidences", "a row of NaN", own, of=row)
                known, own = None, flat[-k:]
            logits = newest.logits[row.incarnation] if newest and known is not None else None
            self._confidences("confidences", row, logits, own)
            used.append(own)
        self._windows(batch, look.budget, used)

    def _windows(self, batch: Batch, budget: int, rows: Sequence[Row]) -> None:
        """Every rule of an allocation, one by one; padded to a bucket, all of them at once."""
        assert batch.verify_lens is not None
        fewest, most = limits(self.config)
        if self.config.early_stopping:
            budget = min(budget, self._paying(rows))
        real, padding = batch.verify_lens[: len(rows)], batch.verify_lens[len(rows) :]
        bucket = batch.verify_bucket
        if min(batch.verify_lens, default=1) < 1:
            broken("windows", "an anchor in each", batch.verify_lens)
        if bucket is not None:
            wanted = padded(self.config, rows, budget, len(padding), bucket)
            if sum(batch.verify_lens) != bucket:
                broken("bucket", f"{bucket} token rows", sum(batch.verify_lens))
            if list(batch.verify_lens) != wanted:
                broken("windows", wanted, list(batch.verify_lens))
            return
        if any(window != 1 for window in padding):
            broken("windows", "an anchor alone for nobody", padding)
        for window in real:
            if not fewest <= window - 1 <= most:
                broken("windows", f"{fewest}..{most} drafts", window - 1)
        spent = sum(real) - len(real) * (1 + fewest)
        if spent > budget:
            broken("windows", f"at most {budget} drafts above the fewest", spent)
        every = {
            (-survival, k, g)
            for g, row in enumerate(survivals(rows))
            for k, survival in enumerate(row[fewest:most], start=fewest)
        }
        taken = {rank for rank in every if rank[1] < real[rank[2]] - 1}
        refused = {rank for rank in every - taken if -rank[0] >= LEAST}
        if any(-rank[0] < LEAST for rank in taken):
            broken("windows", "no draft that hardly ever survives", taken)
        if refused and spent < budget:
            broken("windows", f"{budget} drafts above the fewest", spent)
        if refused and taken and min(refused) < max(taken):
            broken("windows", f"{min(refused)} rather than", max(taken))


def real_rows(batch: Batch) -> list[GenerationRow]:
    """Generations of requests, without idle and padding rows."""
    return [row for row in batch.generations if row.incarnation]
