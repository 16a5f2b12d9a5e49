"""The catalogue of planted defects: what each is."""

from __future__ import annotations

from collections.abc import Mapping

from draftproof.fuzz.defects.defect import Defect as Defect
from draftproof.fuzz.defects.defect import engine_defect as _engine
from draftproof.fuzz.defects.defect import worker_defect as _worker
from draftproof.fuzz.defects.disturbed import FAULT_ENGINES, FAULT_WORKERS
from draftproof.fuzz.defects.engines import drafts, results
from draftproof.fuzz.defects.reported import REPORTED
from draftproof.fuzz.defects.scheduling import COUNTED, LATE, PLANNING
from draftproof.sim.run import MakeEngine

WINDOW_DEFECTS = (
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
        "SLOT-1",
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
)

WORKER_DEFECTS = (
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
    _worker(
        "half-precision",
        "sampling:HalfPrecision",
        "",
        "the target's probabilities are rounded to half precision",
    ),
    _worker(
        "rows-beyond-eight",
        "drafting:RowsBeyondEight",
        "",
        "the ninth row and those behind it are drafted from nowhere",
    ),
    _worker(
        "grammar-not-rolled-back",
        "guided:GrammarNotRolledBack",
        "GRAM-1",
        "rejected drafts stay taken in by the grammar",
    ),
    _worker(
        "grammar-without-bonus",
        "guided:GrammarWithoutBonus",
        "",
        "the token behind the accepted drafts is not taken in by the grammar",
    ),
    _worker(
        "mask-of-row-before",
        "guided:MaskOfRowBefore",
        "",
        "row i + 1 is masked as row i",
    ),
    _worker(
        "guidance-off-at-illegal-draft",
        "guided:GuidanceOffAtIllegalDraft",
        "GRAM-2",
        "a draft that is not allowed switches guidance off",
    ),
    _worker(
        "zero-step-unmasked",
        "guided:ZeroStepUnmasked",
        "",
        "a step without drafts is not masked",
    ),
    _worker(
        "guidance-off-after-failure",
        "guided:GuidanceOffAfterFailure",
        "",
        "once a step has failed, nothing is masked any more",
    ),
    _worker(
        "warm-up-moves-grammar",
        "guided:WarmUpMovesGrammar",
        "",
        "a warm-up takes its drafts into the grammars of live requests",
    ),
    _worker(
        "accepted-counted-twice",
        "guided:AcceptedCountedTwice",
        "",
        "penalties count an accepted draft twice",
    ),
    _worker(
        "accepted-not-counted",
        "guided:AcceptedNotCounted",
        "PEN-3",
        "penalties never count accepted drafts",
    ),
    _worker(
        "penalties-of-other-rows",
        "guided:PenaltiesOfOtherRows",
        "PEN-5",
        "with contexts in the batch, penalties are those of other rows",
    ),
    _worker(
        "counts-inherited",
        "guided:CountsInherited",
        "",
        "a request is penalised for the tokens of the last owner of its sequence slot",
    ),
)

ENGINE_SIDE = (
    _engine(
        "lookup-from-wrong-side",
        drafts.LookupFromWrongSide,
        "",
        "the draft length is that of the last threshold not above the batch size",
    ),
    _engine(
        "drafts-of-another",
        drafts.DraftsOfAnother,
        "LAG-4 ROW-7",
        "after a reorder a request verifies the drafts of another one",
    ),
    _engine(
        "stale-drafts",
        drafts.StaleDrafts,
        "GAP-7",
        "drafts from before a step without drafts are verified after it",
    ),
    _engine(
        "stop-ignored",
        results.StopIgnored,
        "STOP-2 STOP-3",
        "tokens accepted behind a stop token are emitted",
    ),
    _engine(
        "late-result-misdelivered",
        results.LateResultMisdelivered,
        "PRE-4",
        "a late result is given to the next request with the same id",
    ),
)

_WORKERS = (*WINDOW_DEFECTS, *WORKER_DEFECTS, *PLANNING, *FAULT_WORKERS)
_EVERY = (*_WORKERS, *ENGINE_SIDE, *LATE, *FAULT_ENGINES, *REPORTED, *COUNTED)

CORE: tuple[Defect, ...] = (*WINDOW_DEFECTS, *ENGINE_SIDE)
"""Those that are looked for from many seeds, and raced against a plain state machine."""

CATALOGUE: Mapping[str, Defect] = {d.name: d for d in _EVERY}
"""Every planted defect by its name."""

ENGINE_DEFECTS: Mapping[str, MakeEngine] = {d.name: d.engine for d in _EVERY if d.side == "engine"}
"""The faulty engines by the names that traces have for them."""
