"""The target's own tokens, chosen by the worker from logits (semantics, section 19)."""

from __future__ import annotations

from torch import Tensor

from draftproof.gpu import guided
from draftproof.gpu.guided import Matchers, Walkers
from draftproof.gpu.inputs import Inputs, int_tensor
from draftproof.gpu.memory import Memory
from draftproof.gpu.operations import Verified
from draftproof.gpu.penalties import chosen, count, history, penalised
from draftproof.reference.vocabulary import Batch, ContextRow, Guide


class Chooser:
    """What belongs to sequence slots: whose each is, counts on the device, matchers on the host.

    walkers: those of this step's generations; None in a step without a grammar.
    """

    def __init__(self, guide: Guide | None, memory: Memory, slots: int, vocab: int) -> None:
        self.memory = memory
        self.matchers = Matchers(guide, slots, vocab)
        self.owners = [0] * slots
        self.walkers: Walkers | None = None

    @property
    def state(self) -> tuple[Tensor, Tensor]:
        """token_counts, prompt_seen."""
        counts, prompt = self.memory.token_counts, self.memory.prompt_seen
        assert counts is not None and prompt is not None
        return counts, prompt

    def admit(self, batch: Batch) -> None:
        """In `prepare`: new incarnations find their sequence slots empty; prompts are told."""
        counts, prompt = self.state
        fresh: list[int] = []
        seq_slots: list[int] = []
        for row in batch.rows:
            seq_slots += [row.seq_slot] * row.told
            if row.seq_slot < len(self.owners) and self.owners[row.seq_slot] != row.incarnation:
                self.owners[row.seq_slot] = row.incarnation
                self.matchers.begin(row.seq_slot, row.grammar)
                fresh.append(row.seq_slot)
        if fresh:
            index = int_tensor(fresh, counts.device)
            counts.index_fill_(0, index, 0)
            prompt.index_fill_(0, index, False)
        if seq_slots:
            tokens = int_tensor(batch.prompt_tokens or [], counts.device)
            prompt[int_tensor(seq_slots, counts.device), tokens] = True

    def choose(self, batch: Batch, inputs: Inputs) -> Inputs:
        """The target's token of every logit row."""
        choice, contexts = inputs.choice, len(inputs.context_tokens)
        assert choice is not None
        (counts, prompt), masks = self.state, self.masks(batch, inputs)
        own, others = inputs.context_seq_slots, inputs.generation_seq_slots
        asked = choice.asked.of(slice(contexts))
        scores = penalised(choice.contexts, counts[own], prompt[own], asked)
        first = chosen(scores, None if masks is None else masks[:contexts])
        seen = history(counts[others], inputs.drafts)
        asked = choice.asked.of(slice(contexts, None)).rows()
        scores = penalised(choice.generations, seen, prompt[others].unsqueeze(1), asked)
        tokens = chosen(scores, None if masks is None else masks[contexts:].view(scores.shape))
        return inputs._replace(context_tokens=first, target=tokens)

    def masks(self, batch: Batch, inputs: Inputs) -> Tensor | None:
        """What is allowed, bool [C + G * R, V]; None: everything."""
        self.walkers = None
        if not guided.is_guided(batch):
            return None
        slots = self.matchers.slots
        self.walkers = [slots[row.seq_slot] for row in batch.generations]
        return self.matchers.masks(batch).to(inputs.drafts.device)

    def commit(self, batch: Batch, inputs: Inputs, verified: Verified) -> None:
        """Each new token is seen once; that of a chunk that is not the last is none."""
        counts, _ = self.state
        count(counts, inputs.generation_seq_slots, verified.tokens, verified.counts)
        if batch.contexts:
            kept = int_tensor([row.last for row in batch.contexts], counts.device)
            tokens = inputs.context_tokens.unsqueeze(1)
            count(counts, inputs.context_seq_slots, tokens, kept)
        if self.walkers is not None:
            self.settle(batch, inputs, verified)

    def settle(self, batch: Batch, inputs: Inputs, verified: Verified) -> None:
        """The same for the matchers; from here on the host waits for the device."""
        first = inputs.context_tokens.tolist()
        tokens, kept = verified.tokens.tolist(), verified.counts.tolist()
        news = [[token] for token in first]
        news += [row[:n] for row, n in zip(tokens, kept, strict=True)]
        for row, new in zip(batch.rows, news, strict=True):
            if not isinstance(row, ContextRow) or row.last:
                self.matchers.settle(row.seq_slot, new)

    def draft(self, slots: Tensor, verified: Verified, walkers: Walkers) -> Tensor:
        """A block of drafts of a guided step, int64 [G, K]; slots: int64 [G], of windows."""
        return guided.draft(self.memory, slots, verified, walkers, self.matchers.free)

    def depths(self) -> list[int | None]:
        """How many tokens each matcher has taken in; None without one."""
        matchers = self.matchers.slots[:-1]
        return [None if matcher is None else matcher.depth for matcher in matchers]
