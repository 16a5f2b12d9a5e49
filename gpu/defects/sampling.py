"""Defects of rejection sampling: each changes the law of the output, and crashes nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.gpu.constants import ramp
from draftproof.gpu.defects.planted import Planted
from draftproof.gpu.inputs import Inputs
from draftproof.gpu.operations import Verified
from draftproof.gpu.rejection import draw, tested, with_ending
from draftproof.gpu.vocabulary import Drafting, inverse_map
from draftproof.reference.vocabulary import Batch


class ResidualNotClipped(Planted):
    """The recovery draw is from q - p, negative masses included; no public report."""

    def _verify(self, inputs: Inputs) -> Verified:
        probs, sampling, verified = (
            self.memory.draft_probs,
            inputs.sampling,
            super()._verify(inputs),
        )
        if sampling is None or probs is None:
            return verified
        own = probs[inputs.generation_seq_slots]
        ended = tested(inputs.drafts, own, sampling, inputs.windows)
        drawn = draw(ended.q - ended.p, ended.uniform, ended.q)
        return verified._replace(tokens=with_ending(inputs.drafts, ended.accepted, drawn)[0])


class RecoveryReusesAcceptance(Planted):
    """The recovery draw takes the number by which the draft was rejected: REJ-1."""

    def _verify(self, inputs: Inputs) -> Verified:
        if inputs.sampling is not None:
            accept, recover = inputs.sampling.accept_uniforms, inputs.sampling.recover_uniforms
            reused = torch.cat([accept, recover[:, -1:]], 1)
            inputs = inputs._replace(sampling=inputs.sampling._replace(recover_uniforms=reused))
        return super()._verify(inputs)


class PlaceholdersAgainstStaleRows(Planted):
    """Where r grows, placeholders are tested against p of drafts that were cut off.

    No public report: the public worker itself does so (section 16, row 8).
    """

    def _verify(self, inputs: Inputs) -> Verified:
        if inputs.sampling is not None:
            every = torch.full_like(inputs.sampling.proposed, inputs.drafts.shape[1])
            inputs = inputs._replace(sampling=inputs.sampling._replace(proposed=every))
        return super()._verify(inputs)


class GreedyStepKeepsProbabilities(Planted):
    """An all-greedy step writes no draft probabilities, so the next one tests with older: GAP-7."""

    def _draft(self, inputs: Inputs, verified: Verified) -> Tensor:
        probs = self.memory.draft_probs
        if inputs.sampling is not None or probs is None:
            return super()._draft(inputs, verified)
        before = probs.clone()
        drafts = super()._draft(inputs, verified)
        probs.copy_(before)
        return drafts


class NarrowProbabilitiesUnscattered(Planted):
    """Probabilities of draft tokens 0, 1, … stand at the target's tokens 0, 1, …; no public report.

    The drafts themselves are mapped.
    """

    def _drafting(self) -> Drafting:
        drafting = super()._drafting()
        if drafting.inverse is None:
            return drafting
        unmoved = ramp(drafting.vocab, drafting.inverse.device)
        return drafting._replace(inverse=inverse_map(unmoved, len(drafting.inverse)))


class ArgmaxDraftsWithSoftRows(Planted):
    """Drafts are the most likely tokens, but are tested as if they were drawn from p: REJ-10."""

    def _draft(self, inputs: Inputs, verified: Verified) -> Tensor:
        drafts, probs = super()._draft(inputs, verified), self.memory.draft_probs
        return drafts if probs is None else probs[inputs.generation_seq_slots].argmax(2)


class HalfPrecision(Planted):
    """The target's probabilities are kept in bfloat16 before they are tested; no public report."""

    def _read(self, batch: Batch) -> Inputs:
        inputs = super()._read(batch)
        if (sampling := inputs.sampling) is None:
            return inputs
        rounded = sampling.target_probs.to(torch.bfloat16).to(torch.float32)
        return inputs._replace(sampling=sampling._replace(target_probs=rounded))
