"""An abstraction of runs whose transitions say whether a schedule did anything new.

A request is a word of four letters: what it does (prefill, decode), how full its window is (empty,
part, full), what its last r was (none yet, zero, positive, K), whether drafts of its own are left
for the next step. A transition is a request's word before, what the step was (prompt, decoding,
mixed, replayed, ragged or failed; how many drafts were accepted: none, some, all) and its word
after. Departures are transitions to the reason. Three event kinds in a row are one as well, and so
is how the slots moved: how many were taken before and after (none, some, all), how many changed
hands. A campaign of 110,000 steps meets about 1,050 of them.
"""

from __future__ import annotations

from draftproof.fuzz.coverage.moments import frames_of, shape
from draftproof.reference.vocabulary import Config, ContextRow, GenerationRow
from draftproof.sim.run import Expected

Transition = tuple[str, str, str]
"""From, through, to."""

NEW = "new"


class Abstraction:
    """The abstract side of one run."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.words: dict[int, str] = {}  # by incarnation
        self.slots: dict[int, int] = {}  # request id -> slot
        self.kinds = ("", "")

    def asked(self, kind: str) -> Transition:
        """An event begins."""
        earlier, self.kinds = self.kinds, (self.kinds[1], kind)
        return (*earlier, kind)

    def departed(self, incarnation: int, reason: str) -> Transition:
        """A request leaves."""
        return self.words.pop(incarnation, NEW), "leaves", reason

    def restarted(self, incarnation: int) -> None:
        """A request begins again."""
        if incarnation in self.words:
            self.words[incarnation] = "again"

    def step(self, step: Expected) -> set[Transition]:
        """A forward that is not undone."""
        batch, failed = step.batch, step.result is None
        through = "failed" if failed else "ragged" if batch.verify_lens else shape(batch)
        found = {self._moved(step, through)}
        for b, row in enumerate(batch.rows):
            if not row.incarnation:
                continue
            before = self.words.get(row.incarnation, NEW)
            if failed:
                found.add((before, through, "failed"))
                continue
            after, accepted = self._word(step, b, row)
            self.words[row.incarnation] = after
            found.add((before, f"{through} {accepted}", after))
        for left_out in self.words.keys() - {row.incarnation for row in batch.rows}:
            found.add((self.words[left_out], "left out", "out"))
            self.words[left_out] = "out"
        return found

    def _word(self, step: Expected, b: int, row: ContextRow | GenerationRow) -> tuple[str, str]:
        """A request after a step, and how many of its drafts were accepted in it."""
        batch, result, width = step.batch, step.result, self.config.window_size
        assert result is not None
        _, valid, _ = frames_of(step.state, row.request_id)
        fill = "empty" if not valid else "full" if valid == width else "part"
        if isinstance(row, ContextRow):
            return f"prefill {fill}", ""
        r, accepted = batch.draft_len, result.new_tokens_lens[b] - 1
        length = "zero" if not r else "K" if r == self.config.max_draft_len else "positive"
        count = "none" if not accepted else "all" if accepted >= r else "some"
        own = "own" if row.proposed else "blank"
        return f"decode {fill} {length} {own}", count

    def _moved(self, step: Expected, through: str) -> Transition:
        """How the slots moved."""
        before, after = self.slots, dict(step.state.slots or {})
        self.slots = after
        taken = [self._amount(len(slots)) for slots in (before, after)]
        gone = sum(after.get(name) != slot for name, slot in before.items())
        return taken[0], f"{through}, {min(gone, 2)} moved", taken[1]

    def _amount(self, count: int) -> str:
        if not count:
            return "no slots"
        return "all slots" if count == self.config.max_num_requests else "some slots"
