"""The page docs/found.md: which public reports this harness finds, from `draftproof defects`.

For engine teams: what a report was about, how soon the planted fault is found, in how small a
trace, and whether anybody who sees outputs only would have noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from draftproof.fuzz.defects.measuring import Record, spread, told
from draftproof.fuzz.defects.reports import NOT_COVERED, Report, defects_of, reports
from draftproof.fuzz.defects.serving import SHOWN
from draftproof.fuzz.ranks.defects import RANK_CATALOGUE

Records = Mapping[str, Record]

VERDICTS = {
    "wrong": "yes, wrong tokens",
    "died": "yes, the engine dies",
    "stuck": "yes, a request waits for ever",
    "law": "only statistics over many",
    "right": "no",
    "": "not asked",
}

COUNTS = """\
Of {urgent} public reports that need nothing but events, {found} are found. The other {left} are
listed below with the reason. Reports that need a model of memory, or distributions, are not
counted."""

INTRODUCTION = """\
# Public bug reports, and what finds them

{counts}

**{silent} of {asked} ({share:.0%}) did not show in the output**: every request was sent exactly
what the target says, however wrong the state was, and only acceptance, and so speed, suffers.
{law} more can only be seen in statistics over many outputs. Faults of several ranks are not counted
here: of these *output* says whether a rank waits for ever at the drafter's barrier, or a request is
sent a wrong token; what the target's own collectives do is not modelled.

Each row is a fault of the report's kind, planted in the worker or in the serving engine. *Steps*
are checked forwards until random schedules find it: the median over its seeds. *Events* is the
length of the minimal trace, from which no event can be taken. *Found by* is the first oracle to
notice in that trace: the comparison with the model, with the field that differs, or an invariant
over the journal. *Output* says whether the tokens that requests were sent would have shown the
fault to somebody who sees nothing else. For that the whole failing case is served once more, to the
end of every request, by the faulty worker alone, with its own drafts; of two such cases, one that
shows is enough. `draftproof replay docs/traces/NAME.jsonl` runs a trace, which passes on the sound
worker.

Made by `draftproof defects --workers 2 --save docs`.
"""


def page(records: Records) -> str:
    """The page. Reports whose defect has no record are listed as not measured."""
    urgent = [report for report in reports() if report.priority == "P1"]
    found = [report for report in urgent if _records_of(report, records)]
    lines = [_introduction(urgent, found, records)]
    for group, members in groupby(found, key=lambda report: report.group):
        lines += [f"## {group}", "", *_table(list(members), records), ""]
    unmeasured = {r.id: "was not measured" for r in urgent if r not in found}
    unmeasured = {i: why for i, why in unmeasured.items() if i not in NOT_COVERED}
    for title, listed in (
        ("Not measured", unmeasured),
        ("Not about anything that is here", NOT_COVERED),
    ):
        if listed:
            lines += [f"## {title}", "", *_reasons(listed), ""]
    return "\n".join(lines)


def shown(report: Report, records: Records) -> str:
    """The plainest that the output of any of its cases says; empty if nobody asked."""
    return _plainest(_records_of(report, records))


def _plainest(cases: list[Record]) -> str:
    seen = {one for record in cases for one in record["output"].values()}
    return next((verdict for verdict in VERDICTS if verdict in seen), "")


def _introduction(urgent: list[Report], found: list[Report], records: Records) -> str:
    alone = {name: record for name, record in records.items() if name not in RANK_CATALOGUE}
    verdicts = [shown(report, alone) for report in found]
    silent, law = verdicts.count("right"), verdicts.count("law")
    counts = COUNTS.format(urgent=len(urgent), found=len(found), left=len(urgent) - len(found))
    asked = len(found) - verdicts.count("")
    share = silent / asked if asked else 0.0
    return INTRODUCTION.format(counts=counts, silent=silent, asked=asked, share=share, law=law)


def _records_of(report: Report, records: Records) -> list[Record]:
    return [records[d.name] for d in defects_of(report) if d.name in records]


def _table(members: list[Report], records: Records) -> list[str]:
    lines = [
        "| report | whose | planted fault | steps | events | found by | output |",
        "|---|---|---|---|---|---|---|",
    ]
    for report in members:
        for defect in defects_of(report):
            if defect.name in records:
                lines.append(_line(report, defect.name, records[defect.name]))
    return lines


def _line(report: Report, name: str, record: Record) -> str:
    seed = record["trace"]
    oracle, field = record["first"].get(seed, ("nothing", ""))
    by = told(oracle, field) if oracle == "invariant" else f"{oracle}: {field}"
    seen = _plainest([record])
    cells = [
        f"[{report.id}]({report.url})",
        report.where,
        f"[{record['sentence']}](traces/{name}.jsonl)",
        spread(record["seeded"]).split(" (worst")[0],
        str(record["minimal_events"].get(seed, "")),
        by,
        f"**{VERDICTS[seen]}**" if seen in SHOWN else VERDICTS[seen],
    ]
    return f"| {' | '.join(cells)} |"


def _reasons(listed: Mapping[str, str]) -> list[str]:
    by_id = {report.id: report for report in reports()}
    lines = ["| report | whose | why |", "|---|---|---|"]
    for one, why in listed.items():
        lines.append(f"| [{one}]({by_id[one].url}) | {by_id[one].where} | {why} |")
    return lines
