"""Workers with one wrong dependence each, consistent with themselves: only a relation sees it."""

from __future__ import annotations

from dataclasses import replace

from batches import lent

from draftproof.reference.model import Model
from draftproof.reference.vocabulary import UNDONE, Batch, StepResult
from draftproof.sim.run import Run


class Odd(Model):
    """The model, with a number added to all drafts that must have nothing to do with them."""

    def number(self, batch: Batch, b: int) -> int:
        raise NotImplementedError

    def forward(self, batch: Batch) -> StepResult:
        result, v = super().forward(batch), self.config.vocab_size
        for b in range(len(batch.contexts), len(batch.rows)):
            odd = self.number(batch, b)
            drafts = result.next_draft_tokens[b]
            result.next_draft_tokens[b] = [(draft + odd) % v for draft in drafts]
        return result


class CountsNeighbours(Odd):
    def number(self, batch: Batch, b: int) -> int:
        return len({row.incarnation for row in batch.rows if row.incarnation})


class CountsPadding(Odd):
    def number(self, batch: Batch, b: int) -> int:
        return sum(row.incarnation == 0 for row in batch.rows)


class KnowsItsPlace(Odd):
    def number(self, batch: Batch, b: int) -> int:
        return b - len(batch.contexts)


class KnowsItsSlot(Odd):
    def number(self, batch: Batch, b: int) -> int:
        return 0 if batch.mode in UNDONE else self.batch_to_slot[b]


class KnowsItsSequenceSlot(Odd):
    def number(self, batch: Batch, b: int) -> int:
        return batch.rows[b].seq_slot


class KnowsTheMode(Odd):
    def number(self, batch: Batch, b: int) -> int:
        return int(batch.mode == "replay")


class HearsRejectedRows(Odd):
    def number(self, batch: Batch, b: int) -> int:
        return sum(batch.hidden or ())


class ReadsBehindTheMismatch(Odd):
    def number(self, batch: Batch, b: int) -> int:
        return sum(batch.target_tokens)


class ReadsRejectedDrafts(Odd):
    def number(self, batch: Batch, b: int) -> int:
        return sum(batch.drafts)


class ReadsMassBehindTheMismatch(Odd):
    def number(self, batch: Batch, b: int) -> int:
        mass = batch.target_probs or ()
        return int(sum(i * q for i, q in enumerate(mass)) * 2**10)


class ReadsNumbersBehindTheMismatch(Odd):
    def number(self, batch: Batch, b: int) -> int:
        return int(sum(batch.accept_uniforms or ()) * 2**12)


def served(run: Run, kind: type[Model]) -> Run:
    """The run as this worker serves it: what it did is what is expected of it."""
    worker, steps = kind(run.config, lent(run.config)), []
    for step in run.steps:
        if step.fault is not None:
            break
        worker.prepare(step.batch)
        result = worker.forward(step.batch)
        steps.append(replace(step, result=result, state=worker.state()))
    return replace(run, steps=steps, breakdown=None)
