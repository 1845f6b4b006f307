"""Results as a JUnit report, which build servers read: a suite for each task, a case for each check."""

from collections.abc import Iterable, Mapping
from xml.etree import ElementTree as ET

from seatrial.check.grade import WEIGHTS
from seatrial.junit import CaseStatus, case_counts, xml_text
from seatrial.model.check import CheckFinding, CheckOutcome, TaskCheck, Weight


def junit(checks: Iterable[TaskCheck], titles: Mapping[str, str], least: Weight) -> bytes:
    """The report. Findings that are at least so heavy and count are failures; others are only told."""
    root = ET.Element("testsuites", name="seatrial check")
    for check in checks:
        root.append(_suite(check, titles, WEIGHTS[: WEIGHTS.index(least) + 1]))
    ET.indent(root)
    report: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return report + b"\n"


def _suite(check: TaskCheck, titles: Mapping[str, str], heavy: tuple[Weight, ...]) -> ET.Element:
    suite = ET.Element("testsuite", name=xml_text(check.task))
    if check.grade is None:
        case = ET.SubElement(suite, "testcase", classname=xml_text(check.task), name="can be judged")
        ET.SubElement(case, "error", message=xml_text("; ".join(check.reasons)))
    for outcome in check.outcomes:
        own = [finding for finding in check.findings if finding.check == outcome.check]
        suite.append(_case(check.task, outcome, titles.get(outcome.check, ""), own, heavy))
    for name, count in case_counts(map(_status, suite)).items():
        suite.set(name, count)
    suite.set("time", f"{check.duration_sec:.3f}")
    suite.set("timestamp", check.finished_at.isoformat(timespec="seconds"))
    return suite


def _status(case: ET.Element) -> CaseStatus:
    kinds: tuple[CaseStatus, ...] = ("error", "failure", "skipped")
    return next((kind for kind in kinds if case.find(kind) is not None), "passed")


def _case(
    task: str, outcome: CheckOutcome, title: str, findings: list[CheckFinding], heavy: tuple[Weight, ...]
) -> ET.Element:
    case = ET.Element("testcase", classname=xml_text(task), name=f"{outcome.check} {title}".strip())
    failing = [finding for finding in findings if finding.counts and finding.weight in heavy]
    for finding in failing:
        ET.SubElement(
            case, "failure", type=finding.weight, message=xml_text(f"{finding.id}: {finding.message}")
        ).text = xml_text(_told(finding))
    reason = xml_text(outcome.reason or "")
    if outcome.status == "error":
        ET.SubElement(case, "error", message=reason)
    elif outcome.status == "skipped" and not failing:
        ET.SubElement(case, "skipped", message=reason)
    if others := [finding for finding in findings if finding not in failing]:
        ET.SubElement(case, "system-out").text = xml_text("\n".join(map(_told, others)))
    return case


def _told(finding: CheckFinding) -> str:
    marks = [finding.weight, *(["accepted"] if finding.accepted else []), *(["known"] if finding.known else [])]
    fix = f"\n  fix: {finding.fix}" if finding.fix else ""
    return f"{finding.id} ({', '.join(marks)}): {finding.message}{fix}\n  reproduce: {finding.reproduce}"
