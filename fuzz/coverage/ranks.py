"""Points of several ranks: who does what beside whom in one forward, who fails, who pads.

They are computed from worlds (`draftproof.sim.ranks`), which only campaigns over ranks make:
`draftproof faults` has to hit each of them. A world of one rank hits none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from draftproof.reference.config import padded_size
from draftproof.reference.vocabulary import UNDONE, Batch
from draftproof.sim.events import AnyEvent, Step
from draftproof.sim.faults import PLACES, SILENT
from draftproof.sim.ranks import World
from draftproof.sim.run import Expected

MOST = 4
"""Ranks of the largest world of a campaign."""
DEEP = 3
"""So many stages and more that a rank has crossed are one point."""

_SINGLE = {
    "idle beside drafting": "a rank without requests drafts for its dummy, as a busy rank does",
    "idle at r = 0 beside drafting": "a rank without requests has r = 0, a busy rank drafts",
    "idle, then busy": "a rank that was idle beside drafting peers is busy in the next step",
    "prompts beside drafting": "a rank has prompts only, another one drafts",
    "prompts beside idle": "a rank has prompts only, another one is idle",
    "prompts, nobody drafts": "a rank has prompts only, and no rank drafts",
    "r = 0 beside drafting": "a rank decodes at r = 0, another one drafts",
    "r = 0, nobody drafts": "two ranks decode, and no rank drafts: nobody calls the barrier",
    "one drafts alone": "of three ranks or more, one drafts",
    "all but one draft": "of three ranks or more, one does not draft",
    "r of its own": "two busy ranks draft at r that differ",
    "rows of its own": "two ranks draft numbers of rows that differ",
    "all idle": "no rank has requests",
    "all busy": "every rank has requests, and drafts",
    "zero, then drafts": "a rank that crossed for its peers alone drafts in the next step",
    "warm-up": "all ranks make a warm-up",
    "capture": "all ranks capture a graph",
    "warm-up, one fails": "a rank fails in a warm-up, its peers do not",
    "replay": "all ranks replay",
    "replay, idle": "an idle rank replays beside a busy one",
    "replay, padded for a peer": "a rank has more padding than it would have by itself",
    "replay, padding differs": "two ranks replay graphs of sizes that differ",
    "replay, r differs": "two ranks replay graphs for r that differ",
    "replay, one without drafts": "a rank replays at r = 0 beside a rank that drafts",
    "replay, then one fails": "a rank fails just behind a step that all replayed",
    "replay after a failure": "all replay just behind a step in which one rank failed",
    "eager for a peer's prompt": "a rank could replay, but a peer has a prompt",
    "eager for a peer's size": "all ask for a graph, but the largest rank fits no captured size",
    "eager for a peer's kind": "all ask for a graph, but some are ragged and others are not",
    "ragged beside uniform": "a rank verifies windows, a busy peer whole blocks",
    "all ragged": "every busy rank verifies windows, two of them at least",
    "bucket": "all ranks fill a token bucket",
    "bucket, budgets differ": "they do, each by a budget of its own",
    "bucket, idle": "they do, one of them idle",
    "two fail": "two ranks fail in one step",
    "idle fails": "an idle rank fails beside a drafting peer",
    "fails without drafts": "a rank at r = 0 fails beside a drafting peer",
    "fails, nobody drafts": "a rank fails in a step in which no rank drafts",
    "fails again": "a rank fails in two steps in a row, beside a peer that never does",
}  # fmt: skip


def _points() -> Iterator[tuple[str, str]]:
    for name, sentence in _SINGLE.items():
        yield f"rank/{name}", sentence
    for count in range(2, MOST + 1):
        yield f"rank/{count} draft", f"{count} ranks draft in one step, no other one does"
    for place in PLACES:
        told = f"a fault at {place!r} on one rank, a peer drafting"
        yield f"rank/{place} on one", told
    for stage in range(DEEP + 1):
        told = f"{stage} stages" + (" or more" if stage == DEEP else "")
        yield f"rank/before stage {stage}", f"a rank fails that has crossed {told}, a peer drafting"


RANK_POINTS: dict[str, str] = dict(_points())
"""Every point with a sentence that says when it is hit."""


def rank_points(world: World) -> Counter[str]:
    """The points that a world hits, each once for every forward that does."""
    counted: Counter[str] = Counter()
    before: _Round | None = None
    if len(world.ranks) > 1:
        for event, steps in world.rounds:
            now = _Round(world, event, steps)
            counted.update(f"rank/{name}" for name in {*now.names(), *now.behind(before)})
            before = now
    return counted


@dataclass(frozen=True, slots=True)
class _Rank:
    """One rank in a forward. real: rows of requests; graph: its step asked for one."""

    step: Expected
    real: int
    graph: bool

    @property
    def batch(self) -> Batch:
        return self.step.batch

    @property
    def idle(self) -> bool:
        return not self.real

    @property
    def drafts(self) -> bool:
        return bool(self.batch.draft_len and self.batch.generations)

    @property
    def prompts(self) -> bool:
        return bool(self.batch.contexts) and not self.batch.generations

    @property
    def failed(self) -> bool:
        return self.step.fault is not None and self.step.kind not in SILENT


class _Round:
    """One forward of all ranks."""

    def __init__(self, world: World, event: int, steps: Sequence[Expected]) -> None:
        self.config = world.config
        self.undone = any(step.batch.mode in UNDONE for step in steps)
        pairs = zip(world.ranks, steps, strict=True)
        self.ranks = [_of(step, run.events[step.event]) for run, step in pairs]
        self.busy = [rank for rank in self.ranks if not rank.idle]
        self.drafting = [rank for rank in self.ranks if rank.drafts]
        self.failed = [rank for rank in self.ranks if rank.failed]
        self.replayed = all(rank.batch.mode == "replay" for rank in self.ranks)

    def names(self) -> Iterator[str]:
        """What this forward is by itself."""
        if self.undone:
            modes = {rank.batch.mode for rank in self.ranks}
            if len(modes) == 1:
                yield "capture" if "capture" in modes else "warm-up"
            if 0 < len(self.failed) < len(self.ranks):
                yield "warm-up, one fails"
            return
        yield from self._beside()
        yield from self._failures()
        yield from self._windows()
        yield from self._replays() if self.replayed else self._eager()

    def _beside(self) -> Iterator[str]:
        """Who is idle, prefills, decodes without drafts or drafts, beside whom."""
        drafting, others = self.drafting, len(self.ranks) - len(self.drafting)
        busy_drafting = [rank for rank in self.busy if rank.drafts]
        idle = [rank for rank in self.ranks if rank.idle]
        zero = [rank for rank in self.busy if rank.batch.generations and not rank.batch.draft_len]
        prompts = any(rank.prompts for rank in self.ranks)
        named = {
            f"{len(drafting)} draft": 1 < len(drafting) <= MOST,
            "idle beside drafting": bool(busy_drafting) and any(rank.drafts for rank in idle),
            "idle at r = 0 beside drafting": bool(busy_drafting)
            and any(not rank.batch.draft_len for rank in idle),
            "prompts beside drafting": bool(drafting) and prompts,
            "prompts beside idle": bool(idle) and prompts,
            "prompts, nobody drafts": not drafting and prompts,
            "r = 0 beside drafting": bool(drafting and zero),
            "r = 0, nobody drafts": not drafting and len(zero) > 1,
            "one drafts alone": len(drafting) == 1 and others > 1,
            "all but one draft": len(drafting) > 1 and others == 1,
            "r of its own": len({rank.batch.draft_len for rank in busy_drafting}) > 1,
            "rows of its own": len({len(rank.batch.generations) for rank in drafting}) > 1,
            "all idle": not self.busy,
            "all busy": len(busy_drafting) == len(self.ranks),
        }
        yield from (name for name, true in named.items() if true)

    def _failures(self) -> Iterator[str]:
        """Who fails where, beside whom."""
        for rank in self.ranks:
            sound = [peer for peer in self.drafting if peer.step.fault is None]
            if rank.step.fault is not None and sound:
                yield f"{rank.step.fault} on one"
            if not rank.failed:
                continue
            if not self.drafting:
                yield "fails, nobody drafts"
            if not sound:
                continue
            if rank.step.fault == "stage":
                yield f"before stage {min(DEEP, self._crossed(rank))}"
            if rank.idle:
                yield "idle fails"
            elif rank.batch.generations and not rank.batch.draft_len:
                yield "fails without drafts"
        if len(self.failed) > 1:
            yield "two fail"

    def _crossed(self, rank: _Rank) -> int:
        """How many stages a rank has crossed that fails before one of them."""
        return rank.batch.step % self.config.num_stages  # as `Simulation` arms it

    def _windows(self) -> Iterator[str]:
        """Who verifies windows, and in a bucket of how many tokens."""
        ragged = [rank for rank in self.busy if rank.batch.verify_lens is not None]
        whole = [rank for rank in self.busy if rank.drafts and rank.batch.verify_lens is None]
        if ragged and whole:
            yield "ragged beside uniform"
        if len(ragged) == len(self.busy) > 1:
            yield "all ragged"
        if all(rank.batch.verify_bucket is not None for rank in self.ranks):
            yield "bucket"
            if len({rank.batch.verify_budget for rank in self.busy}) > 1:
                yield "bucket, budgets differ"
            if len(self.busy) < len(self.ranks):
                yield "bucket, idle"

    def _replays(self) -> Iterator[str]:
        """All replay: each the graph that the largest of them needs."""
        yield "replay"
        if 0 < len(self.busy) < len(self.ranks):
            yield "replay, idle"
        for rank in self.ranks:
            own = padded_size(self.config, max(1, rank.real), rank.batch.draft_len)
            if rank.batch.verify_bucket is None and len(rank.batch.generations) != own:
                yield "replay, padded for a peer"
        if len({len(rank.batch.generations) for rank in self.ranks}) > 1:
            yield "replay, padding differs"
        if len({rank.batch.draft_len for rank in self.drafting}) > 1:
            yield "replay, r differs"
        if 0 < len(self.drafting) < len(self.ranks):
            yield "replay, one without drafts"

    def _eager(self) -> Iterator[str]:
        """Nobody replays although somebody could."""
        prompts = [bool(rank.batch.contexts) for rank in self.ranks]
        if any(prompts) and any(
            rank.graph and not prompt and self._fits(rank, rank.real)
            for rank, prompt in zip(self.ranks, prompts, strict=True)
        ):
            yield "eager for a peer's prompt"
        if any(prompts) or not all(rank.graph for rank in self.ranks):
            return
        most = max(rank.real for rank in self.ranks)
        small = [self._fits(rank, rank.real) for rank in self.ranks]
        large = [self._fits(rank, most) for rank in self.ranks]
        if any(small) and not all(large):
            yield "eager for a peer's size"
        kinds = {rank.batch.verify_lens is None for rank in self.busy}
        if all(large) and len(kinds) > 1:
            yield "eager for a peer's kind"

    def _fits(self, rank: _Rank, rows: int) -> bool:
        """Whether there is a graph for so many rows at the rank's own r."""
        return padded_size(self.config, max(1, rows), rank.batch.draft_len) is not None

    def behind(self, before: _Round | None) -> Iterator[str]:
        """What it is, given the forward before it."""
        if before is None or self.undone or before.undone:
            return
        pairs = list(zip(before.ranks, self.ranks, strict=True))
        sound = any(not last.failed and not now.failed for last, now in pairs)
        for last, now in pairs:
            lone = last.idle and any(r.drafts and not r.idle for r in before.ranks)
            if lone and not now.idle:
                yield "idle, then busy"
            if before.drafting and not last.drafts and now.drafts and not now.idle:
                yield "zero, then drafts"
            if last.failed and now.failed and sound:
                yield "fails again"
        if before.replayed and 0 < len(self.failed) < len(self.ranks):
            yield "replay, then one fails"
        if self.replayed and 0 < len(before.failed) < len(before.ranks):
            yield "replay after a failure"


def _of(step: Expected, event: AnyEvent) -> _Rank:
    real = sum(row.incarnation > 0 for row in step.batch.rows)
    return _Rank(step, real, isinstance(event, Step) and event.graph)
