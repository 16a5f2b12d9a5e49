"""Planted defects of failing, interrupted and undone steps."""

from __future__ import annotations

from dataclasses import replace

from draftproof.fuzz.defects.defect import engine_defect, worker_defect
from draftproof.fuzz.defects.engines import disturbed

FAULT_WORKERS = (
    worker_defect(
        "warm-up-undone-on-success-only",
        "disturbed:WarmUpUndoneOnSuccessOnly",
        "EXC-1 EXC-2",
        "a warm-up that fails is not undone",
    ),
    worker_defect(
        "warm-up-takes-slots",
        "disturbed:WarmUpTakesSlots",
        "",
        "the slot map is not put back after a warm-up",
    ),
    worker_defect(
        "warm-up-stamps-stay",
        "disturbed:WarmUpStampsStay",
        "",
        "the stamps are not put back after a warm-up",
    ),
    worker_defect(
        "scratch-row-grows",
        "disturbed:ScratchRowGrows",
        "SLOT-4",
        "the position of the scratch row grows for ever",
    ),
    worker_defect(
        "failed-window-inherited",
        "disturbed:FailedWindowInherited",
        "EXC-3",
        "the next owner of a slot sees the window of a request that failed",
    ),
    worker_defect(
        "failed-confidences-stay",
        "disturbed:FailedConfidencesStay",
        "",
        "the next owner of a slot has the confidences of a request that failed",
    ),
    worker_defect(
        "failure-counts-as-acceptance",
        "disturbed:FailureCountsAsAcceptance",
        "",
        "in the step behind a failure every draft counts as accepted",
    ),
    worker_defect(
        "attention-not-restored",
        "disturbed:AttentionNotRestored",
        "EXC-1",
        "after an exception the attention is still set up for the drafter",
    ),
    worker_defect(
        "attention-restored-early",
        "disturbed:AttentionRestoredEarly",
        "",
        "the drafter runs while the attention is set up for the target",
    ),
    worker_defect(
        "clean-up-stops-short",
        "disturbed:CleanUpStopsShort",
        "",
        "a clean-up that fails leaves the attention set up for the drafter",
    ),
    worker_defect(
        "clean-up-hides-the-error",
        "disturbed:CleanUpHidesTheError",
        "EXC-3",
        "an error while cleaning up is raised in place of the first one",
    ),
    worker_defect(
        "out-of-memory-retried",
        "disturbed:OutOfMemoryRetried",
        "",
        "a step whose memory ran out is tried again",
    ),
    worker_defect(
        "sized-by-first-batch",
        "disturbed:SizedByFirstBatch",
        "",
        "there are as many rows as the first batch had",
    ),
    worker_defect(
        "answer-taken-unchecked",
        "disturbed:AnswerTakenUnchecked",
        "",
        "a token that there is none of is taken for another one",
    ),
    worker_defect(
        "greedy-without-drafts",
        "disturbed:GreedyWithoutDrafts",
        "REJ-12",
        "a sampled row is decoded greedily at r = 0",
    ),
)

FAULT_ENGINES = (
    engine_defect(
        "chunk-retried",
        disturbed.ChunkRetried,
        "",
        "a prompt chunk is fed twice to a request that was paused in between",
    ),
    engine_defect(
        "cancel-leaves-slot",
        disturbed.CancelLeavesSlot,
        "",
        "a request cancelled in mid-step never gives its sequence slot back",
    ),
    replace(
        engine_defect(
            "lost-wake-up",
            disturbed.LostWakeUp,
            "",
            "a request whose result is lost waits for it for ever",
        ),
        live=True,
    ),
)
