"""The catalogue of planted defects: what each is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from draftproof.fuzz import engine_defects as engines
from draftproof.fuzz.cases import Subject
from draftproof.sim.engine import Engine
from draftproof.sim.loading import load
from draftproof.sim.run import MakeEngine


@dataclass(frozen=True, slots=True)
class Defect:
    """One planted fault.

    implementation: the faulty worker, None if the fault is in the engine; engine: the engine,
    faulty or not; reports: public reports that it resembles, by their ids in the list of them.
    """

    name: str
    sentence: str
    implementation: str | None = None
    engine: MakeEngine = Engine
    reports: tuple[str, ...] = ()

    @property
    def side(self) -> str:
        """Where the fault is: "worker" or "engine"."""
        return "engine" if self.implementation is None else "worker"

    def subject(self, device: str = "cpu") -> Subject:
        """What to test. Raises ImplementationError if torch is not here."""
        make = load(self.implementation, device) if self.implementation else None
        return Subject(make, self.engine)


def _worker(name: str, factory: str, reports: str, sentence: str) -> Defect:
    return Defect(name, sentence, f"draftproof.gpu.defects.{factory}", Engine, _ids(reports))


def _engine(name: str, engine: MakeEngine, reports: str, sentence: str) -> Defect:
    return Defect(name, sentence, None, engine, _ids(reports))


def _ids(reports: str) -> tuple[str, ...]:
    return tuple(reports.split())


WORKER_DEFECTS = (
    _worker(
        "frame-off-by-one",
        "windows:FrameOffByOne",
        "POS-1",
        "accepted rows are stored one frame too early",
    ),
    _worker(
        "interim-rows-dropped",
        "windows:InterimRowsDropped",
        "POS-9 BONUS-1",
        "of the accepted rows only the last one is stored",
    ),
    _worker(
        "rejected-row-stored",
        "windows:RejectedRowStored",
        "ROLL-2 ROLL-6",
        "the row of the first rejected draft is stored over the oldest frame",
    ),
    _worker(
        "zero-step-does-not-advance",
        "steps:ZeroStepDoesNotAdvance",
        "GAP-1 GAP-2",
        "a step without drafts leaves window and counters behind",
    ),
    _worker(
        "zero-step-reads-context-rows",
        "steps:ZeroStepReadsContextRows",
        "ROW-6",
        "a step without drafts, with contexts in it, stores their rows for the generations",
    ),
    _worker(
        "window-not-cleared",
        "slots:WindowNotCleared",
        "LEAK-2",
        "a slot is given out with the counters and the window of its last owner",
    ),
    _worker(
        "padding-on-slot-0",
        "slots:PaddingOnSlotZero",
        "SLOT-1 SLOT-8",
        "padding rows write to slot 0 instead of the scratch row",
    ),
    _worker(
        "valid-len-not-clamped",
        "steps:ValidLenNotClamped",
        "",
        "valid_len grows beyond the window",
    ),
    _worker(
        "unwritten-columns-visible",
        "steps:UnwrittenColumnsVisible",
        "POS-3 CTX-1",
        "an imported request sees columns that were never written",
    ),
    _worker(
        "free-queue-as-stack",
        "slots:FreeQueueAsStack",
        "",
        "the slot given up last is given out first",
    ),
    _worker(
        "accept-beyond-window",
        "steps:AcceptBeyondWindow",
        "ROW-1 ROW-17",
        "drafts past the verify window are compared with the next request's rows",
    ),
    _worker(
        "chunk-at-local-positions",
        "windows:ChunkAtLocalPositions",
        "POS-2",
        "every prompt chunk is placed from frame 1 on",
    ),
    _worker(
        "earlier-life-inherited",
        "slots:EarlierLifeInherited",
        "LEAK-5",
        "a new request under an old id gets the slot of the old one",
    ),
    _worker(
        "masked-column-undoes-write",
        "windows:MaskedColumnUndoesWrite",
        "",
        "at W < K a rejected row restores a column over an accepted row",
    ),
    _worker(
        "stamp-frozen",
        "graphs:StampFrozen",
        "",
        "a replayed graph stamps confidences with the draft number of its capture",
    ),
    _worker(
        "real-rows-frozen",
        "graphs:RealRowsFrozen",
        "GRAPH-3",
        "a replayed graph takes as many rows for real as there were at its capture",
    ),
    _worker(
        "key-without-draft-len",
        "graphs:KeyWithoutDraftLen",
        "GRAPH-5",
        "a graph captured for one draft length is replayed for another",
    ),
    _worker(
        "key-without-greedy",
        "graphs:KeyWithoutGreedy",
        "",
        "a graph captured for an all-greedy batch is replayed for a sampled one",
    ),
    _worker(
        "warm-up-leaves-trace",
        "graphs:WarmUpLeavesTrace",
        "",
        "the forward that warms up for a capture is not undone",
    ),
    _worker(
        "padding-keeps-slots",
        "graphs:PaddingKeepsSlots",
        "GRAPH-7",
        "padding rows of a replay write to the slots of earlier rows",
    ),
    _worker(
        "residual-not-clipped",
        "sampling:ResidualNotClipped",
        "",
        "the recovery draw is from q - p with its negative masses",
    ),
    _worker(
        "recovery-reuses-acceptance",
        "sampling:RecoveryReusesAcceptance",
        "REJ-1",
        "the recovery draw takes the number by which the draft was rejected",
    ),
    _worker(
        "placeholders-against-stale-rows",
        "sampling:PlaceholdersAgainstStaleRows",
        "",
        "where r grows, placeholders are tested against p of drafts that were cut off",
    ),
    _worker(
        "greedy-step-keeps-probabilities",
        "sampling:GreedyStepKeepsProbabilities",
        "GAP-7",
        "drafts of an all-greedy step are tested against p of an earlier one",
    ),
    _worker(
        "narrow-probabilities-unscattered",
        "sampling:NarrowProbabilitiesUnscattered",
        "",
        "p over a narrower draft vocabulary is read as if it were over the target's",
    ),
    _worker(
        "argmax-drafts-with-soft-rows",
        "sampling:ArgmaxDraftsWithSoftRows",
        "REJ-10",
        "the most likely tokens are tested as if they were drawn from p",
    ),
)

ENGINE_SIDE = (
    _engine(
        "lookup-from-wrong-side",
        engines.LookupFromWrongSide,
        "",
        "the draft length is that of the last threshold not above the batch size",
    ),
    _engine(
        "drafts-of-another",
        engines.DraftsOfAnother,
        "LAG-4 ROW-7",
        "after a reorder a request verifies the drafts of another one",
    ),
    _engine(
        "stale-drafts",
        engines.StaleDrafts,
        "GAP-7",
        "drafts from before a step without drafts are verified after it",
    ),
    _engine(
        "stop-ignored",
        engines.StopIgnored,
        "STOP-2 STOP-3",
        "tokens accepted behind a stop token are emitted",
    ),
    _engine(
        "late-result-misdelivered",
        engines.LateResultMisdelivered,
        "PRE-4",
        "a late result is given to the next request with the same id",
    ),
)

CATALOGUE: Mapping[str, Defect] = {d.name: d for d in (*WORKER_DEFECTS, *ENGINE_SIDE)}
"""Every planted defect by its name."""

ENGINE_DEFECTS: Mapping[str, MakeEngine] = {d.name: d.engine for d in ENGINE_SIDE}
"""The faulty engines by the names that traces have for them."""
