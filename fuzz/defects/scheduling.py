"""Planted defects of what is verified when: confidences, ragged rows, results that come late.

And of what is counted of all that."""

from __future__ import annotations

from draftproof.fuzz.defects.defect import engine_defect, worker_defect
from draftproof.fuzz.defects.engines import counts, planning, results

PLANNING = (
    worker_defect(
        "rows-strided",
        "planning:RowsStrided",
        "ROW-1 ROW-16",
        "rows of a ragged step are taken to be 1 + K apart",
    ),
    worker_defect(
        "layout-of-the-host",
        "planning:LayoutOfTheHost",
        "ROW-3 ROW-4",
        "rows lie as the host would have shared them out, windows are those of the device",
    ),
    worker_defect(
        "stamp-ignored",
        "planning:StampIgnored",
        "",
        "old confidences are trusted after a step without drafts",
    ),
    worker_defect(
        "contexts-do-not-count",
        "planning:ContextsDoNotCount",
        "",
        "the draft number, and so every stamp, stands still in a step with contexts only",
    ),
    worker_defect(
        "window-without-anchor",
        "planning:WindowWithoutAnchor",
        "ROW-17",
        "a verify window is read as a number of drafts, the anchor not counted",
    ),
    worker_defect(
        "padding-without-window",
        "planning:PaddingWithoutWindow",
        "",
        "padding rows have windows of 0",
    ),
    worker_defect(
        "raw-probabilities",
        "planning:RawProbabilities",
        "",
        "survivals are multiplied from probabilities before calibration",
    ),
    worker_defect(
        "searches-on",
        "planning:SearchesOn",
        "",
        "the prefix scheduler looks past a draft that does not pay for one that does",
    ),
    worker_defect(
        "slack-in-one-piece",
        "planning:SlackInOnePiece",
        "",
        "the slack of a token bucket goes to the first request until that is full",
    ),
    worker_defect(
        "slack-to-padding",
        "planning:SlackToPadding",
        "",
        "the slack of a token bucket goes to padding rows before requests",
    ),
)

LATE = (
    engine_defect(
        "recycled-slot",
        planning.RecycledSlot,
        "",
        "the host's snapshot is read at a request's present slot, whoever had that slot then",
    ),
    engine_defect(
        "current-confidences",
        planning.CurrentConfidences,
        "",
        "the host looks at the confidences of the very drafts that it schedules",
    ),
    engine_defect(
        "late-result-twice",
        results.LateResultTwice,
        "",
        "a result that comes late is applied twice",
    ),
)

COUNTED = (
    engine_defect(
        "placeholders-counted",
        counts.PlaceholdersCounted,
        "STAT-3",
        "placeholders count as drafts that were verified",
    ),
    engine_defect(
        "failure-counted-as-accepted",
        counts.FailureCountedAsAccepted,
        "",
        "the drafts of a step that failed count as accepted",
    ),
    engine_defect(
        "dropped-counted-as-emitted",
        counts.DroppedCountedAsEmitted,
        "STAT-5",
        "tokens accepted behind a stop or the limit count as emitted",
    ),
    engine_defect(
        "withheld-counted",
        counts.WithheldCounted,
        "LAG-1 STAT-4",
        "results that reach nobody count as verified",
    ),
)
