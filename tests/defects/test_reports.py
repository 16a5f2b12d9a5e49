"""Every public report of priority 1 has a planted defect, or a reason why not; none has both."""

from collections.abc import Collection, Iterator, Mapping

import pytest

from draftproof.fuzz.defects.reports import NOT_COVERED, PLANTED, Report, reports

COVERED = frozenset(report for defect in PLANTED.values() for report in defect.reports)


def misplaced(
    known: Collection[Report], covered: Collection[str], reasons: Mapping[str, str]
) -> Iterator[str]:
    """What is wrong with who stands for which report."""
    ids = {report.id for report in known}
    for one in sorted((set(covered) | set(reasons)) - ids):
        yield f"{one} is not in the list"
    for report in known:
        if report.id in covered and report.id in reasons:
            yield f"{report.id} has a defect and a reason for having none"
        if report.priority == "P1" and report.id not in covered and report.id not in reasons:
            yield f"{report.id} has neither a defect nor a reason"
        if report.priority != "P1" and report.id in reasons:
            yield f"{report.id} needs no reason"


def test_every_report_is_in_one_place() -> None:
    """If this fails, docs/found.md hides a report, or says two things about it."""
    assert list(misplaced(reports(), COVERED, NOT_COVERED)) == []


@pytest.mark.parametrize(
    ("covered", "reasons", "complaint"),
    [
        (COVERED - {"POS-1"}, NOT_COVERED, "POS-1 has neither a defect nor a reason"),
        (COVERED, {**NOT_COVERED, "POS-1": "x"}, "POS-1 has a defect and a reason for having none"),
        (COVERED | {"POS-99"}, NOT_COVERED, "POS-99 is not in the list"),
        (COVERED, {**NOT_COVERED, "POS-99": "x"}, "POS-99 is not in the list"),
        (COVERED, {**NOT_COVERED, "CAP-7": "x"}, "CAP-7 needs no reason"),
    ],
)
def test_a_report_out_of_place_is_seen(
    covered: Collection[str], reasons: Mapping[str, str], complaint: str
) -> None:
    """If this fails, the test above cannot fail."""
    assert list(misplaced(reports(), covered, reasons)) == [complaint]


def test_the_list_is_whole() -> None:
    """If this fails, a report was lost from the list, or is there twice."""
    known = reports()
    assert len(known) == len({report.id for report in known}) == 111
    assert [sum(r.priority == p for r in known) for p in ("P1", "P2", "P3")] == [91, 12, 8]
    assert all(report.url.startswith("https://") and report.where for report in known)
