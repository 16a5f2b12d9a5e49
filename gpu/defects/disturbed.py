"""Defects of what a failed, interrupted or undone step leaves behind."""

from __future__ import annotations

import sys
from dataclasses import replace

import torch
from torch import Tensor

from draftproof.gpu.checks import check_batch
from draftproof.gpu.defects.planted import Planted
from draftproof.gpu.inputs import Inputs
from draftproof.gpu.operations import Verified
from draftproof.gpu.slots import Changes
from draftproof.reference.vocabulary import UNDONE, Batch, StepResult


class WarmUpUndoneOnSuccessOnly(Planted):
    """What was saved for a warm-up is not restored behind an exception: EXC-1, EXC-2."""

    def _forward_impl(self, batch: Batch) -> StepResult:
        if batch.mode not in UNDONE:
            return super()._forward_impl(batch)
        check_batch(batch, self.config)
        saved = self.rows, self.memory.saved()
        result = self._run(batch)
        self.rows, tensors = saved
        self.memory.restore(tensors)
        return result


class WarmUpTakesSlots(Planted):
    """A warm-up's `prepare` counts like any other, and is not undone; no public report."""

    def prepare(self, batch: Batch) -> None:
        """Section 3, in every mode."""
        super().prepare(replace(batch, mode="eager"))


class WarmUpStampsStay(Planted):
    """The stamps that a warm-up set are no part of what is restored; no public report."""

    def _forward_impl(self, batch: Batch) -> StepResult:
        try:
            return super()._forward_impl(batch)
        finally:
            if batch.mode in UNDONE:
                slots = torch.tensor(self._slots(batch))
                self.memory.confidence_stamp.index_fill_(0, slots, self.draft_seq + 1)


class ScratchRowGrows(Planted):
    """The row that padding shares goes on from where it was, for ever: SLOT-4."""

    def _verify(self, inputs: Inputs) -> Verified:
        before = self.memory.ctx_len[self.scratch].clone()
        verified = super()._verify(inputs)
        self.memory.ctx_len[self.scratch] += before
        return verified


class _RemembersFailures(Planted):
    failed = False

    def _forward_impl(self, batch: Batch) -> StepResult:
        try:
            result = super()._forward_impl(batch)
        except BaseException:
            self.failed = True
            raise
        self.failed = False
        return result


class FailedWindowInherited(_RemembersFailures):
    """Slots of requests that failed are given out with window and counters: EXC-3."""

    def _apply(self, changes: Changes) -> None:
        if not self.failed:
            self.memory.clear(changes.cleared)
        self.memory.neutralise(changes.admitted)


class FailedConfidencesStay(_RemembersFailures):
    """Confidences of requests that failed are those of the slots' next owners; no public report."""

    def _apply(self, changes: Changes) -> None:
        self.memory.clear(changes.cleared)
        if not self.failed:
            self.memory.neutralise(changes.admitted)


class FailureCountsAsAcceptance(_RemembersFailures):
    """The step behind a failure accepts every draft, as if the target had; no public report."""

    def _verify(self, inputs: Inputs) -> Verified:
        if self.failed:
            inputs = inputs._replace(target=torch.cat([inputs.drafts, inputs.target[:, -1:]], 1))
        return super()._verify(inputs)


class AttentionNotRestored(Planted):
    """After an exception the attention stays as the drafter had set it up: EXC-1."""

    def _clean_up(self) -> None:
        kept, failed = self.attention.rows, sys.exc_info()[0] is not None
        super()._clean_up()
        if failed:
            self.attention.rows = kept


class AttentionRestoredEarly(Planted):
    """The attention is put back before the drafter runs; no public report."""

    def _forward_impl(self, batch: Batch) -> StepResult:
        self.attention.restore()
        return super()._forward_impl(batch)


class CleanUpStopsShort(Planted):
    """A clean-up that fails leaves the attention as the drafter had it; no public report."""

    def _clean_up(self) -> None:
        self.at("cleanup")
        self.crossing.finish()
        self.attention.restore()


class CleanUpHidesTheError(Planted):
    """What goes wrong in the clean-up is raised in place of what went wrong first: EXC-3."""

    def _forward_impl(self, batch: Batch) -> StepResult:
        try:
            return super()._forward_impl(batch)
        finally:
            self.at("cleanup")


class OutOfMemoryRetried(Planted):
    """A step that ran out of memory is tried again, on what the first left; no public report."""

    def _forward_impl(self, batch: Batch) -> StepResult:
        try:
            return super()._forward_impl(batch)
        except MemoryError:
            return super()._forward_impl(batch)


class SizedByFirstBatch(Planted):
    """Rows are sized by the first batch that comes, a small graph maybe; no public report."""

    def _slots(self, batch: Batch) -> list[int]:
        slots = super()._slots(batch)
        room: int = self.__dict__.setdefault("room", len(slots))
        return slots[:room] + [self.scratch] * (len(slots) - room)


class AnswerTakenUnchecked(Planted):
    """Numbers that the target cannot have meant are taken as they are; no public report."""

    def _forward_impl(self, batch: Batch) -> StepResult:
        tokens = batch.target_tokens[:]
        for i, token in enumerate(tokens):
            tokens[i] = min(max(token, 0), self.config.vocab_size - 1)
        return super()._forward_impl(replace(batch, target_tokens=tokens))


class GreedyWithoutDrafts(Planted):
    """At r = 0 a sampled row is given the target's most likely token: REJ-12."""

    def _verify(self, inputs: Inputs) -> Verified:
        if inputs.sampling is not None and not inputs.drafts.shape[1]:
            best: Tensor = inputs.sampling.target_probs.argmax(-1)
            inputs = inputs._replace(sampling=None, target=best)
        return super()._verify(inputs)
