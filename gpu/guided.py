"""Guided decoding: matchers on the host, and what a guided step has to wait for (section 19).

A guided step is no part of a graph: its masks come from the host, and its tokens go back there.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from draftproof.gpu.constants import ramp
from draftproof.gpu.exact_drafter import confidence, context_sum
from draftproof.gpu.memory import Memory
from draftproof.gpu.operations import Verified
from draftproof.gpu.window import visible_columns
from draftproof.reference.vocabulary import UNDONE, Batch, Guide, Matcher

Walkers = list[Matcher | None]
"""The matchers of some rows; None for a row that keeps to no grammar."""


def is_guided(batch: Batch) -> bool:
    """Whether any row keeps to a grammar; in a warm-up none does."""
    return batch.mode not in UNDONE and any(row.grammar for row in batch.rows)


class Matchers:
    """A matcher per sequence slot, where its request has a grammar.

    Within a step each runs ahead over the drafts, and what was rejected is taken back.
    """

    def __init__(self, guide: Guide | None, slots: int, vocab: int) -> None:
        self.guide = guide
        self.slots: Walkers = [None] * (slots + 1)
        self.ahead: dict[int, int] = {}
        self.free = bytes([1]) * vocab

    def begin(self, seq_slot: int, grammar: int) -> None:
        """A new request in a sequence slot."""
        self.slots[seq_slot] = None
        if grammar:
            assert self.guide is not None, "a grammar needs `Collaborators.guide`"
            self.slots[seq_slot] = self.guide(grammar)

    def masks(self, batch: Batch) -> Tensor:
        """What each logit row allows, bool [C + G * R, V], on the host."""
        r, rows = batch.draft_len, [self.along(row.seq_slot, []) for row in batch.contexts]
        for g, row in enumerate(batch.generations):
            window = batch.verify_lens[g] if batch.verify_lens is not None else 1 + r
            drafts = batch.drafts[g * r : g * r + window - 1].tolist()
            rows += [self.along(row.seq_slot, drafts), self.free * (1 + r - window)]
        return as_masks(rows, len(self.free))

    def along(self, seq_slot: int, drafts: Sequence[int]) -> bytes:
        """What may follow the last token, and each draft behind it, [1 + drafts][V].

        Behind a draft that is not allowed everything may: nothing there is ever accepted.
        """
        matcher, ahead = self.slots[seq_slot], 0
        if matcher is None:
            return self.free * (1 + len(drafts))
        rows = [matcher.allowed()]
        while ahead < len(drafts) and matcher.advance(drafts[ahead]):
            rows.append(matcher.allowed())
            ahead += 1
        self.ahead[seq_slot] = ahead
        return b"".join(rows) + self.free * (len(drafts) - ahead)

    def settle(self, seq_slot: int, tokens: Sequence[int]) -> None:
        """These are the new tokens: accepted drafts, which were taken in, and the one behind."""
        matcher = self.slots[seq_slot]
        if matcher is not None:
            matcher.rollback(self.ahead[seq_slot] - len(tokens) + 1)
            matcher.advance(tokens[-1])


def as_masks(rows: Sequence[bytes], vocab: int) -> Tensor:
    """Bytes as bool [N, vocab], on the host."""
    return torch.frombuffer(bytearray(b"".join(rows)), dtype=torch.bool).view(-1, vocab)


def first_allowed(best: Tensor, allowed: Tensor) -> Tensor:
    """The first allowed token from `best` upwards, modulo V; best: int64 [G], allowed: [G, V]."""
    vocab = allowed.shape[1]
    distance = (ramp(vocab, best.device) - best.unsqueeze(1)) % vocab
    return torch.where(allowed, distance, vocab).argmin(1)


def draft(
    memory: Memory, slots: Tensor, verified: Verified, walkers: Walkers, free: bytes
) -> Tensor:
    """A block of drafts under grammars, int64 [G, K]; its confidences are remembered.

    slots: int64 [G], of windows; walkers: of the generations, which are back where they were
    afterwards; free: the mask of a row without one.
    """
    start, vocab = verified.start, len(free)
    bonus = verified.tokens.gather(1, verified.counts.unsqueeze(1) - 1).squeeze(1)
    frames, visible = visible_columns(start, verified.valid, memory.windows.shape[2])
    total = context_sum(memory.windows[slots], frames, visible)
    tokens = [bonus]
    for k in range(memory.confidence_logits.shape[1]):
        best = (total + start + 31 * tokens[k] + 7 * k) % vocab
        masks = as_masks([walker.allowed() if walker else free for walker in walkers], vocab)
        tokens.append(first_allowed(best, masks.to(best.device)))
        advance(walkers, tokens[-1].tolist())
    take_back(walkers, len(tokens) - 1)
    drafts = torch.stack(tokens[1:], 1)
    memory.confidence_logits[slots] = confidence(total, bonus, drafts)
    memory.confidence_stamp[slots] = memory.draft_seq
    return drafts


def advance(walkers: Walkers, tokens: Sequence[int]) -> None:
    """Each takes in its token, which its mask has allowed."""
    for walker, token in zip(walkers, tokens, strict=True):
        if walker is not None:
            walker.advance(token)


def take_back(walkers: Walkers, count: int) -> None:
    """Each forgets its last tokens."""
    for walker in walkers:
        if walker is not None:
            walker.rollback(count)
