"""The one place where a batch's arrays go to the device.

Everything is copied: the harness overwrites the arrays after the step, and `torch.frombuffer`
shares their memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from draftproof.gpu.checks import draws_numbers, generation_rows, uses_rejection
from draftproof.gpu.penalties import Asked, Choice
from draftproof.gpu.philox import WORD, Seeds
from draftproof.gpu.ragged import unpack_index
from draftproof.gpu.rejection import Sampling
from draftproof.gpu.static import Field, StaticArrays
from draftproof.reference.vocabulary import ROW_COMPONENTS, Batch, Config, GenerationRow


class Inputs(NamedTuple):
    """A batch on the device; rows of generations are unpacked to R = 1 + r each.

    context_tokens: int64 [C]; context_hidden: windows' dtype [context token rows, D];
    drafts: int64 [G, r]; target: int64 [G, R]; hidden: windows' dtype [G, R, D]; positions: int64
    [G]; context_seq_slots: int64 [C]; generation_seq_slots: int64 [G]; windows: int64 [G], None
    unless ragged; sampling: None unless this step uses rejection sampling; choice: what the worker
    chooses context_tokens and target from, which then mean nothing yet, else None. Of a ragged
    generation, rows past its window repeat other rows of the batch.
    """

    context_tokens: Tensor
    context_hidden: Tensor
    drafts: Tensor
    target: Tensor
    hidden: Tensor
    positions: Tensor
    context_seq_slots: Tensor
    generation_seq_slots: Tensor
    windows: Tensor | None
    sampling: Sampling | None
    choice: Choice | None = None


class StaticInputs:
    """Where all that a step brings along lies on the device: at the same place in every step.

    Rows are sized by the configuration (section 16, row 4), and every array of a step begins at
    the beginning of its own room, so a step of G generations and draft length r reads the same
    addresses whenever it comes. batch_to_slot: int64 [S]; draft_seq: int64 [].
    """

    def __init__(self, config: Config, device: torch.device, dtype: torch.dtype) -> None:
        self.config = config
        self.dtype = dtype
        self.arrays = StaticArrays(_fields(config), device, config.poison)
        self.batch_to_slot = self.arrays.device["batch_to_slot"]
        self.draft_seq = self.arrays.device["draft_seq"].squeeze(0)

    def write(self, batch: Batch, slots: Sequence[int], draft_seq: int) -> None:
        """Take a checked batch to the device; slots: one per row; draft_seq: this step's."""
        self.arrays.begin()
        host, generations = self.arrays.host, batch.generations
        count = len(generations)
        host["draft_seq"][0] = draft_seq
        host["batch_to_slot"][: len(slots)] = slots
        host["positions"][:count] = [row.position for row in generations]
        host["seq_slots"][: len(slots)] = [row.seq_slot for row in batch.rows]
        self._fill("drafts", batch.drafts)
        self._fill("target_tokens", batch.target_tokens)
        self._fill("hidden", batch.hidden)
        if batch.verify_lens is not None:
            host["windows"][:count] = batch.verify_lens
            host["logit_rows"][0] = generation_rows(batch)
        if self.config.target_logits:
            self._write_choice(batch)
        elif uses_rejection(batch, self.config):
            self._write_sampling(batch, generations)
            self.arrays.send("target_probs", len(batch.target_probs or ()))
        else:
            self.arrays.send("hidden", len(batch.hidden or ()))

    def read(self, batch: Batch, uniforms: Callable[[Seeds, int], Tensor]) -> Inputs:
        """The batch that was written last, for the device; looks only at shapes on the host.

        Of a batch without contexts it uses nothing but G, r, `all_greedy`, whether it is ragged,
        its token bucket, and whether it brings numbers: what else it used would be frozen in a
        graph. uniforms: draws the numbers that it does not bring, as `gpu.philox.uniforms` does.
        """
        c, g, r = len(batch.contexts), len(batch.generations), batch.draft_len
        first = sum(row.length for row in batch.contexts)
        arrays, d = self.arrays.device, ROW_COMPONENTS
        unpack = self._unpacking(batch)
        hidden = arrays["hidden"][: (first + g * (1 + r)) * d].view(-1, d)
        return Inputs(
            context_tokens=arrays["target_tokens"][:c],
            context_hidden=hidden[:first].to(self.dtype),
            drafts=arrays["drafts"][: g * r].view(g, r),
            target=unpack(arrays["target_tokens"][c : c + g * (1 + r)]),
            hidden=unpack(hidden[first:]).to(self.dtype),
            positions=arrays["positions"][:g],
            context_seq_slots=arrays["seq_slots"][:c],
            generation_seq_slots=arrays["seq_slots"][c : c + g],
            windows=unpack.windows,
            sampling=self._sampling(batch, unpack, uniforms),
            choice=self._choice(batch, unpack),
        )

    def _fill(self, name: str, values: array[int] | array[float] | None) -> None:
        """An absent array is as good as an empty one."""
        if values:
            self.arrays.host[name][: len(values)] = values

    def _write_sampling(self, batch: Batch, generations: Sequence[GenerationRow]) -> None:
        host = self.arrays.host
        host["proposed"][: len(generations)] = [row.proposed for row in generations]
        host["greedy"][: len(generations)] = [row.greedy for row in generations]
        if draws_numbers(batch):
            host["seeds_low"][: len(generations)] = [row.seed & WORD for row in generations]
            host["seeds_high"][: len(generations)] = [row.seed >> 32 & WORD for row in generations]
            host["incarnations"][: len(generations)] = [row.incarnation for row in generations]
        for name in ("accept_uniforms", "recover_uniforms", "draft_uniforms", "target_probs"):
            self._fill(name, getattr(batch, name))

    def _write_choice(self, batch: Batch) -> None:
        for name in Asked._fields:
            values = [getattr(row.penalties, name) for row in batch.rows]
            self.arrays.host[name][: len(values)] = values
        self._fill("target_logits", batch.target_logits)
        self.arrays.send("target_logits", len(batch.target_logits or ()))

    def _choice(self, batch: Batch, unpack: _Unpacking) -> Choice | None:
        if not self.config.target_logits:
            return None
        c, rows, vocab = len(batch.contexts), len(batch.rows), self.config.vocab_size
        arrays, end = self.arrays.device, len(batch.generations) * (1 + batch.draft_len)
        logits = arrays["target_logits"][: (c + end) * vocab].view(-1, vocab)
        asked = Asked(*(arrays[name][:rows] for name in Asked._fields))
        return Choice(logits[:c], unpack(logits[c:]), asked)

    def _unpacking(self, batch: Batch) -> _Unpacking:
        shape = len(batch.generations), 1 + batch.draft_len
        if batch.verify_lens is None:
            return _Unpacking(shape, None, None)
        windows = self.arrays.device["windows"][: shape[0]]
        total = batch.verify_bucket or self.arrays.device["logit_rows"]
        return _Unpacking(shape, windows, unpack_index(windows, total, shape[1]))

    def _sampling(
        self, batch: Batch, unpack: _Unpacking, uniforms: Callable[[Seeds, int], Tensor]
    ) -> Sampling | None:
        if not uses_rejection(batch, self.config):
            return None
        g, r, vocab = len(batch.generations), batch.draft_len, self.config.vocab_size
        arrays, block = self.arrays.device, self.config.max_draft_len
        if draws_numbers(batch):
            names = "seeds_low", "seeds_high", "incarnations", "positions"
            drawn = uniforms(Seeds(*(arrays[name][:g] for name in names)), r + 1 + block)
            accept, recover = drawn[0, :, :r], drawn[1, :, : r + 1]
            draft = drawn[2, :, 1:].unfold(1, block, 1)
        else:
            accept = arrays["accept_uniforms"][: g * r].view(g, r)
            recover = arrays["recover_uniforms"][:g].unsqueeze(1).expand(g, r + 1)
            draft = arrays["draft_uniforms"][: g * block].view(g, 1, block).expand(g, r + 1, block)
        return Sampling(
            target_probs=unpack(arrays["target_probs"][: g * (1 + r) * vocab].view(-1, vocab)),
            proposed=arrays["proposed"][:g],
            greedy=arrays["greedy"][:g] != 0,
            accept_uniforms=accept,
            recover_uniforms=recover,
            draft_uniforms=draft,
        )


@dataclass(frozen=True, slots=True)
class _Unpacking:
    """Turns packed generation rows into [G, R, ...] (section 6, ragged).

    windows: int64 [G]; index: int64 [G, R], packed row of each; None: uniform, packed as they are.
    """

    shape: tuple[int, int]
    windows: Tensor | None
    index: Tensor | None

    def __call__(self, packed: Tensor) -> Tensor:
        if self.index is None:
            return packed.view(*self.shape, *packed.shape[1:])
        return packed[self.index]


def _fields(config: Config) -> list[Field]:
    """Room for any batch; those that are large, and not always used, come last."""
    rows, block = config.max_num_requests, config.max_draft_len
    logits = rows * (1 + block)
    fields = [
        Field("draft_seq", torch.int64, 1),
        Field("logit_rows", torch.int64, 1),
        Field("batch_to_slot", torch.int64, rows, start=rows),  # scratch
        Field("seq_slots", torch.int64, rows),
        Field("positions", torch.int64, rows),
        Field("windows", torch.int64, rows),
        Field("drafts", torch.int64, rows * block),
        Field("target_tokens", torch.int64, logits),
    ]
    if config.use_rejection_sampling:
        fields += [
            Field("proposed", torch.int64, rows),
            Field("greedy", torch.int64, rows),
            Field("seeds_low", torch.int64, rows),
            Field("seeds_high", torch.int64, rows),
            Field("incarnations", torch.int64, rows),
            Field("accept_uniforms", torch.float32, rows * block),
            Field("recover_uniforms", torch.float32, rows),
            Field("draft_uniforms", torch.float32, rows * block),
        ]
    if config.target_logits:
        fields += [Field(name, torch.float32, rows) for name in Asked._fields]
    fields.append(Field("hidden", torch.int8, config.max_num_tokens * ROW_COMPONENTS))
    if config.target_logits:
        fields.append(Field("target_logits", torch.float32, logits * config.vocab_size))
    if config.use_rejection_sampling:
        fields.append(Field("target_probs", torch.float32, logits * config.vocab_size))
    return fields


def int_tensor(values: Sequence[int], device: torch.device) -> Tensor:
    """int64 [len(values)]; through an array, since `torch.tensor` of a list is slow."""
    if not values:
        return torch.empty(0, dtype=torch.int64, device=device)
    return torch.frombuffer(array("q", values), dtype=torch.int64).to(device)
