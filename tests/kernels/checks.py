"""Kernels against their eager twins, on generated inputs with their edge cases first.

Each check takes the module whose launcher it tests, so that one with a planted fault can be given
instead. `most` and `most_columns` make many programs of few rows and tokens.
"""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

from draftproof.gpu import philox
from draftproof.gpu.acceptance import strict
from draftproof.gpu.advance import advance
from draftproof.gpu.constants import one_hot
from draftproof.gpu.exact_drafter import (
    confidence,
    context_sum,
    draft_argmax,
    draft_law,
    draft_sampled,
)
from draftproof.gpu.operations import Accepted, Eager, Prompt, Verified
from draftproof.gpu.rejection import reject
from draftproof.gpu.vocabulary import inverse_map, scatter_vocabulary
from draftproof.gpu.window import visible_columns
from kernels.inputs import NAN, Numbers, cloned, same, same_counters

BATCHES = ((0, 3), (1, 0), (1, 1), (1, 7), (5, 0), (37, 3), (20, 7))
"""Rows and draft lengths."""


def check_verify(module: ModuleType) -> None:
    """Strict acceptance and counters; drafts and target over two tokens, so prefixes are long."""
    for seed, (rows, r) in enumerate(BATCHES):
        for ragged in (False, True):
            numbers = Numbers(seed)
            drafts, target = numbers.ints(0, 1, rows, r), numbers.ints(0, 1, rows, r + 1)
            target[: rows // 4, :r] = drafts[: rows // 4]  # all accepted
            windows = numbers.ints(1, r + 1, rows) if ragged else None
            found = numbers.counters(rows, width=3)
            expected = cloned(found)
            verified = module.verify(drafts, target, windows, found, most=4)
            tokens, counts = strict(drafts, target, windows)
            moved = advance(*expected[:5], counts, expected.width)
            for mine, theirs in zip(verified, (tokens, counts, *moved), strict=True):
                same(mine, theirs)
            same_counters(found, expected)


def check_reject(module: ModuleType) -> None:
    """Rejection sampling; masses and numbers are such that both sides of every test are met."""
    for seed, (rows, r) in enumerate(BATCHES):
        for ragged, vocab in ((False, 6), (True, 13), (False, 1)):
            numbers, block = Numbers(seed), max(r, 2)
            sampling = numbers.sampling(rows, r, block, vocab)
            found = numbers.counters(rows, width=3)
            probs, drafts = numbers.law(rows + 4, block, vocab), numbers.ints(0, vocab - 1, rows, r)
            owners = numbers.slots(rows, rows + 3)
            alike = min(rows // 3, r)  # no residual mass: p = q
            probs[owners[:alike], :r] = sampling.target_probs[:alike, :r]
            if rows // 4 and vocab > 1:  # p = q = 0 at a draft
                sampling.target_probs[: rows // 4] = one_hot(torch.tensor(1), vocab)
                probs[owners[: rows // 4]] = one_hot(torch.tensor(1), vocab)
                drafts[: rows // 4] = 0
            for owner, proposed in zip(owners.tolist(), sampling.proposed.tolist(), strict=True):
                if (owners == owner).sum() == 1:
                    probs[owner, proposed:] = NAN
            windows = numbers.ints(1, r + 1, rows) if ragged else None
            expected = cloned(found)
            verified = module.reject(
                drafts,
                probs,
                owners,
                sampling,
                windows,
                found,
                most=4,
                most_columns=4,
                most_pieces=2,
            )
            tokens, counts = reject(drafts, probs[owners], sampling, windows)
            moved = advance(*expected[:5], counts, expected.width)
            for mine, theirs in zip(verified, (tokens, counts, *moved), strict=True):
                same(mine, theirs)
            same_counters(found, expected)


def check_windows(module: ModuleType) -> None:
    """Every shape of window, also W < R; contexts, generations and both; NaN where nothing is."""
    shapes = ((8, 3, 2), (1, 7, 1), (3, 7, 3), (5, 0, 1))
    for seed, (width, r, stages) in enumerate(shapes):
        for prompts, generations in ((0, 1), (4, 0), (3, 6), (0, 0)):
            numbers, slots = Numbers(seed), generations + 4
            found = torch.full((slots + 1, stages, width, 7), NAN, dtype=torch.bfloat16)
            found[numbers.flags(slots + 1)] = 5
            expected = found.clone()
            rows = _rows(numbers, generations, r + 1)
            owners = torch.randperm(slots - 1, generator=numbers.generator)
            counts = numbers.ints(1, r + 1, generations)
            accepted = Accepted(
                rows, owners[:generations], numbers.ints(0, 30, generations), counts
            )
            frames = 11 + torch.arange(min(prompts, width))
            sources = torch.randperm(prompts, generator=numbers.generator)[: len(frames)]
            places = torch.full_like(frames, slots - 1)
            prompt = Prompt(_rows(numbers, prompts), sources, places, frames)
            given = prompt if prompts else None, accepted if generations else None
            module.write_windows(found, *given, most=4)
            Eager().store(expected, *given)
            same(found[:-1], expected[:-1])


def check_masked_rows(module: ModuleType) -> None:
    """Masked rows touch nothing: not even the scratch row."""
    found = torch.full((3, 2, 4, 7), NAN)
    rows = torch.ones(1, 4, 7)
    accepted = Accepted(rows, torch.tensor([0]), torch.tensor([0]), torch.tensor([2]))
    module.write_windows(found, None, accepted)
    assert found[0, :, 1:3].isfinite().all()
    found[0, :, 1:3] = NAN
    assert found.isnan().all()


def check_draft(module: ModuleType) -> None:
    """The exact drafter by argmax and by given numbers, with its confidences."""
    for seed, (rows, block) in enumerate(((0, 2), (1, 1), (9, 3), (4, 7))):
        for vocab, sampled in ((64, False), (6, True), (3, True), (1, True)):
            numbers, width, slots = Numbers(seed), (8, 1, 5, 3)[seed], rows + 3
            windows = numbers.ints(0, 127, slots + 1, 2, width, 7).to(torch.bfloat16)
            own = torch.randperm(slots + 1, generator=numbers.generator)[:rows]
            start = numbers.ints(0, 20_000, rows)
            valid = numbers.ints(0, width, rows).minimum(start)
            frames, visible = visible_columns(start, valid, width)
            hidden = windows[own]
            hidden.masked_fill_(~visible[:, None, :, None], NAN)
            windows[own] = hidden
            tokens, counts = numbers.ints(0, vocab - 1, rows, 3), numbers.ints(1, 3, rows)
            verified = Verified(tokens, counts, counts, start, valid)
            memory = torch.full((slots + 2, block), NAN), numbers.ints(0, 9, slots + 2)
            confidences = module.Confidences(*(m.clone() for m in memory), torch.tensor(77))
            greedy, uniforms = numbers.flags(rows), numbers.uniform(rows, block)
            draws = module.Draws(greedy, uniforms) if sampled else None
            drafts, best = module.draft(windows, own, verified, confidences, vocab, draws, most=2)
            bonus = tokens.gather(1, counts.unsqueeze(1) - 1).squeeze(1)
            total = context_sum(hidden, frames, visible)
            if sampled:
                wanted, law = draft_sampled(total, start, bonus, greedy, uniforms, vocab)
                laws = torch.stack([draft_law(best[:, k], vocab) for k in range(block)], 1)
                same(torch.where(greedy[:, None, None], one_hot(best, vocab), laws), law)
            else:
                wanted = draft_argmax(total, start, bonus, block, vocab)
            same(drafts, wanted)
            memory[0][own], memory[1][own] = confidence(total, bonus, wanted), 77
            same(confidences.logits, memory[0])
            same(confidences.stamps, memory[1])


def check_one_hot(module: ModuleType) -> None:
    """One-hot rows, and rows of the law, also where its masses meet; nobody else's are touched."""
    for seed, (rows, block, vocab) in enumerate(((0, 2, 5), (1, 1, 1), (6, 3, 9), (5, 2, 3))):
        numbers = Numbers(seed)
        tokens, owners = numbers.ints(0, vocab - 1, rows, block), torch.arange(rows) + 1
        for greedy in (None, numbers.flags(rows)):
            found = torch.full((rows + 3, block, vocab), NAN)
            expected = found.clone()
            module.write_one_hot(found, owners, tokens, greedy, most=2, most_columns=4)
            expected[owners] = one_hot(tokens, vocab)
            if greedy is not None and rows:
                law = draft_law(tokens.flatten(), vocab).view(rows, block, vocab)
                expected[owners[~greedy]] = law[~greedy]
            same(found, expected)


def check_scatter(module: ModuleType) -> None:
    """A narrower draft vocabulary, in any order, of any size up to the full one."""
    for seed, (rows, narrow, vocab) in enumerate(((0, 3, 5), (1, 1, 1), (4, 5, 13), (3, 13, 13))):
        numbers = Numbers(seed)
        d2t = torch.randperm(vocab, generator=numbers.generator)[:narrow]
        inverse, given = inverse_map(d2t, vocab), numbers.law(rows, 2, narrow)
        found = torch.full((rows + 2, 2, vocab), NAN)
        expected = found.clone()
        owners = torch.arange(rows)
        module.scatter_vocabulary(found, owners, given, inverse, most=2, most_columns=4)
        scatter_vocabulary(expected, owners, given, inverse)
        same(found, expected)
        by_hand = torch.zeros(rows, 2, vocab)
        by_hand[:, :, d2t] = given
        same(expected[:rows], by_hand)


def check_uniforms(module: ModuleType) -> None:
    """Random numbers, whose positions and incarnations have more than 32 bits."""
    for rows, count in ((0, 3), (1, 1), (5, 7)):
        numbers = Numbers(rows)
        low, high = (numbers.ints(0, 2**32 - 1, rows) for _ in range(2))
        lives, positions = (numbers.ints(2**32 - 4, 2**32 + 4, rows) for _ in range(2))
        seeds = philox.Seeds(low, high, lives, positions)
        same(module.uniforms(seeds, count, most=16), philox.uniforms(seeds, count))


def _rows(numbers: Numbers, *shape: int) -> Tensor:
    rows = numbers.ints(0, 127, *shape, 7).to(torch.bfloat16)
    rows[..., -1] = 0
    return rows
