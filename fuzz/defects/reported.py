"""Planted defects that public reports ask for, beside those of `catalogue.py`."""

from __future__ import annotations

from draftproof.fuzz.defects.defect import engine_defect, worker_defect
from draftproof.fuzz.defects.engines import drafts, requests, results

REPORTED_WORKERS = (
    worker_defect(
        "padding-on-last-slot",
        "slots:PaddingOnLastSlot",
        "SLOT-8",
        "padding rows write to the last slot instead of the scratch row",
    ),
    worker_defect(
        "padding-takes-slot",
        "slots:PaddingTakesSlot",
        "SLOT-5",
        "a padding row is given a slot of the pool",
    ),
    worker_defect(
        "idle-row-keeps-slot",
        "slots:IdleRowKeepsSlot",
        "SLOT-7",
        "an idle step writes to the slot that its row had in the step before",
    ),
    worker_defect(
        "unknown-on-slot-0",
        "slots:UnknownOnSlotZero",
        "SLOT-2",
        "requests whose prompt did not begin here all share slot 0",
    ),
    worker_defect(
        "cleared-when-reused",
        "slots:ClearedWhenReused",
        "LEAK-8",
        "a slot that was given up is cleared only when somebody gets it",
    ),
    worker_defect(
        "position-by-rounds",
        "counters:PositionByRounds",
        "POS-5",
        "the position moves on by one a step, however many tokens were accepted",
    ),
    worker_defect(
        "length-by-rounds",
        "counters:LengthByRounds",
        "POS-8",
        "the position moves on by the accepted tokens, the length by one a step",
    ),
    worker_defect(
        "boundary-not-rolled-back",
        "counters:BoundaryNotRolledBack",
        "ROLL-3",
        "after a rejection the next step goes on behind the rejected rows",
    ),
    worker_defect(
        "plain-step-from-block-start",
        "counters:PlainStepFromBlockStart",
        "ROLL-5",
        "a step without drafts goes on from the first row of the block before it",
    ),
    worker_defect(
        "drafts-at-length-zero",
        "counters:DraftsAtLengthZero",
        "GAP-4",
        "the drafter also runs in a step without drafts",
    ),
    worker_defect(
        "nothing-to-verify-raw",
        "counters:NothingToVerifyRaw",
        "ROW-14",
        "a row without a draft to verify sends what was in its buffer",
    ),
    worker_defect(
        "recovered-thrown-away",
        "counters:RecoveredThrownAway",
        "BONUS-3",
        "the token drawn behind a rejected draft is not handed on",
    ),
    worker_defect(
        "result-overwritten",
        "steps:ResultOverwritten",
        "LAG-5",
        "a result is overwritten by the next step before the host has read it",
    ),
    worker_defect(
        "drafts-of-next-row",
        "drafting:DraftsOfNextRow",
        "POS-10",
        "draft k is taken from row k + 1 of the block",
    ),
    worker_defect(
        "drafts-from-slot-0",
        "drafting:DraftsFromSlotZero",
        "SLOT-11",
        "the drafter is always shown the context in slot 0",
    ),
    worker_defect(
        "blocks-of-equal-length",
        "drafting:BlocksOfEqualLength",
        "ROW-20",
        "all blocks begin as if everybody had accepted as much as the first request",
    ),
    worker_defect(
        "first-offset-before-array",
        "drafting:FirstOffsetBeforeArray",
        "ROW-19",
        "the first request's offset is read before the array of offsets",
    ),
    worker_defect(
        "reused-prefix-visible",
        "windows:ReusedPrefixVisible",
        "CTX-1",
        "behind a reused prefix columns are visible that were never written",
    ),
    worker_defect(
        "prompts-alone-not-stored",
        "windows:PromptsAloneNotStored",
        "CTX-3",
        "a step of prompts alone is over before their rows are stored",
    ),
    worker_defect(
        "roll-back-too-far",
        "grammars:RollBackTooFar",
        "GRAM-3",
        "a new grammar is taken back by one token too many",
    ),
    worker_defect(
        "dead-end-not-counted",
        "grammars:DeadEndNotCounted",
        "GRAM-4",
        "a draft that leads to a dead end of the grammar is not taken back",
    ),
    worker_defect(
        "mask-off-at-placeholder",
        "grammars:MaskOffAtPlaceholder",
        "GRAM-5",
        "from the first placeholder on rows are not masked",
    ),
    worker_defect(
        "walk-not-taken-back",
        "grammars:WalkNotTakenBack",
        "GRAM-11",
        "the grammar stays behind the first draft that was tried",
    ),
    worker_defect(
        "finish-not-counted",
        "grammars:FinishNotCounted",
        "GRAM-12",
        "a rejected draft that ends the text is not taken back from the grammar",
    ),
    worker_defect(
        "rejected-draft-counted",
        "grammars:RejectedDraftCounted",
        "PEN-4",
        "penalties count the draft that was rejected",
    ),
)

REPORTED_ENGINES = (
    engine_defect(
        "drafts-by-batch-row",
        drafts.DraftsByBatchRow,
        "ROW-11",
        "drafts are kept for some requests only, and looked up by row of the whole batch",
    ),
    engine_defect(
        "swap-through-views",
        drafts.SwapThroughViews,
        "ROW-13",
        "after two rows were swapped both have the drafts of one",
    ),
    engine_defect(
        "drafts-of-the-host",
        drafts.DraftsOfTheHost,
        "LAG-4",
        "an overlapped step verifies the drafts of one step earlier",
    ),
    engine_defect(
        "paused-keeps-drafts",
        drafts.PausedKeepsDrafts,
        "PRE-3",
        "a request that was left out of a step comes back with old drafts",
    ),
    engine_defect(
        "placeholders-of-the-absent",
        drafts.PlaceholdersOfTheAbsent,
        "LEAK-7",
        "a request that waits gets placeholders for its last drafts",
    ),
    engine_defect(
        "skip-fills-with-zeros",
        drafts.SkipFillsWithZeros,
        "STAT-3",
        "where nothing was drafted, zeros count as drafts",
    ),
    engine_defect(
        "late-result-to-the-departed",
        results.LateResultToTheDeparted,
        "LAG-1 STAT-4",
        "a result that comes late is applied to a request that is over",
    ),
    engine_defect(
        "preempted-in-flight",
        results.PreemptedInFlight,
        "PRE-1",
        "a result is applied to a request that was preempted while it was in flight",
    ),
    engine_defect(
        "limit-ignored",
        results.LimitIgnored,
        "STOP-7",
        "tokens accepted beyond the limit are emitted",
    ),
    engine_defect(
        "completion-ignored",
        results.CompletionIgnored,
        "GRAM-10",
        "tokens accepted behind the end of a grammar's text are emitted",
    ),
    engine_defect(
        "dropped-tokens-counted",
        results.DroppedTokensCounted,
        "STOP-3 STAT-5",
        "tokens dropped behind the end stay in the request's counts",
    ),
    engine_defect(
        "reserved-not-given-back",
        results.ReservedNotGivenBack,
        "CAP-4",
        "rows reserved for rejected drafts are never given back",
    ),
    engine_defect(
        "zero-step-not-consumed",
        results.ZeroStepNotConsumed,
        "GAP-6",
        "after a step without drafts the same token is fed once more",
    ),
    engine_defect(
        "ended-at-prompt-keeps-place",
        results.EndedAtPromptKeepsPlace,
        "STOP-6",
        "a request that ends with its first token does not give its place back",
    ),
    engine_defect(
        "offsets-by-row",
        requests.OffsetsByRow,
        "LAG-2",
        "an overlapped step moves rows on by what another request accepted",
    ),
    engine_defect(
        "resume-reads-prompt",
        requests.ResumeReadsPrompt,
        "CTX-6",
        "a request that is computed again is fed as if it had no output yet",
    ),
    engine_defect(
        "one-row-per-decode",
        requests.OneRowPerDecode,
        "CAP-1",
        "the token budget counts one row for a generation that has 1 + r",
    ),
)

REPORTED = (*REPORTED_WORKERS, *REPORTED_ENGINES)
