"""Planted defects of ranks that have to keep step with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from draftproof.fuzz.ranks.cases import RankSubject
from draftproof.reference.config import padded_size
from draftproof.reference.ragged import Shape, agreed_shape
from draftproof.reference.scheduler import limits_of
from draftproof.reference.vocabulary import Batch, Config
from draftproof.sim.events import AnyEvent, Step
from draftproof.sim.loading import load
from draftproof.sim.rank_engine import Agreed, RankEngine, Wish, agree, drafted
from draftproof.sim.ranks import Agree
from draftproof.sim.run import MakeEngine
from draftproof.sim.snapshots import load_of


@dataclass(frozen=True, slots=True)
class RankDefect:
    """One planted fault: in every rank's worker, in every rank's engine, or in what they agree."""

    name: str
    sentence: str
    implementation: str | None = None
    engine: MakeEngine = RankEngine
    agree: Agree = agree
    reports: tuple[str, ...] = ()

    @property
    def side(self) -> str:
        """Where the fault is: "worker" or "engine"."""
        return "engine" if self.implementation is None else "worker"

    def subject(self, device: str = "cpu") -> RankSubject:
        """What to test. Raises ImplementationError if torch is not here."""
        make = load(self.implementation, device) if self.implementation else None
        return RankSubject(make, self.engine, agree=self.agree)


def counted_before_padding(config: Config, wishes: Sequence[Wish]) -> Agreed:
    """Row counts are gathered before anybody knows how many rows padding adds."""
    agreed = agree(config, wishes)
    return Agreed(agreed.wanted, tuple(drafted(config, wish, None) for wish in wishes))


class GlobalBatchSize(RankEngine):
    """r is looked up for the requests of all ranks together."""

    def _draft_len(self, event: Step, size: int) -> int:
        others = (engine for engine in self.peers if engine is not self)
        return super()._draft_len(event, size + sum(len(engine.running) for engine in others))


class PadsAlone(RankEngine):
    """A rank pads for its own rows, whatever the others need."""

    def _shape(self, r: int, real: int, budget: int | None) -> Shape | None:
        shape = super()._shape(r, real, budget)
        own = padded_size(self.config, max(1, real), r)
        return None if shape is None or own is None else shape._replace(rows=own)


class BucketOfOwnBudget(RankEngine):
    """The rows are those that were agreed on; the bucket is the one that this rank needs."""

    def _shape(self, r: int, real: int, budget: int | None) -> Shape | None:
        shape = super()._shape(r, real, budget)
        if shape is None or budget is None or not shape.tokens:
            return shape
        load, buckets = load_of(self.config, real, budget), self.config.verify_buckets
        widest = limits_of(self.config).most + 1
        return agreed_shape([load], [shape.rows], buckets, widest)


class IdleWithoutLayout(RankEngine):
    """The dummy of an idle rank is a whole block, as if nobody planned."""

    def handle(self, event: AnyEvent) -> Batch | None:
        if self.follows:
            self.agreed = replace(self.agreed, kind="uniform")
        return super().handle(event)


def kinds_not_compared(config: Config, wishes: Sequence[Wish]) -> Agreed:
    """Everybody replays the kind of graph of the first rank that has one."""
    kind = next((wish.kind for wish in wishes if wish.kind is not None), None)
    alike = [wish if wish.kind is None else replace(wish, kind=kind) for wish in wishes]
    return agree(config, alike)


def _worker(name: str, kind: str, reports: str, sentence: str) -> RankDefect:
    implementation = f"draftproof.gpu.defects.crossing:{kind}"
    return RankDefect(name, sentence, implementation, reports=tuple(reports.split()))


_EVERY = (
    _worker(
        "zero-step-does-not-cross",
        "ZeroStepDoesNotCross",
        "RANK-16",
        "a rank at r = 0 does not come to the barrier where its peers draft",
    ),
    _worker(
        "crosses-for-nobody",
        "CrossesForNobody",
        "",
        "a rank comes to the barrier though no rank drafts",
    ),
    _worker(
        "idle-rank-miscounts",
        "IdleRankMiscounts",
        "RANK-8",
        "an idle rank comes to the barrier with a wrong list of row counts",
    ),
    _worker(
        "failed-rank-leaves",
        "FailedRankLeaves",
        "",
        "a rank that fails does not cross the stages that are left",
    ),
    _worker(
        "empty-ranks-uncounted",
        "EmptyRanksUncounted",
        "RANK-15",
        "the list of row counts has no dummy row for ranks that draft nothing",
    ),
    _worker(
        "counts-of-the-target",
        "CountsOfTheTarget",
        "RANK-13",
        "a rank comes to the barrier with the rows of its target, not of its drafter",
    ),
    RankDefect(
        "counted-before-padding",
        "the list of row counts is made before padding",
        agree=counted_before_padding,
    ),
    RankDefect(
        "global-batch-size",
        "a rank looks r up for the requests of all ranks",
        engine=GlobalBatchSize,
    ),
    RankDefect(
        "pads-alone",
        "a rank pads for its own rows alone",
        engine=PadsAlone,
    ),
    RankDefect(
        "bucket-of-own-budget",
        "ranks agree on rows, but each takes the token bucket of its own budget",
        engine=BucketOfOwnBudget,
        reports=("RANK-2",),
    ),
    RankDefect(
        "idle-rank-without-layout",
        "an idle rank replays without windows where its peers have some",
        engine=IdleWithoutLayout,
        reports=("RANK-9",),
    ),
    RankDefect(
        "kinds-not-compared",
        "ranks replay though some of them plan and others verify whole blocks",
        agree=kinds_not_compared,
    ),
)

RANK_CATALOGUE: Mapping[str, RankDefect] = {defect.name: defect for defect in _EVERY}
"""Every planted defect of ranks by its name."""
