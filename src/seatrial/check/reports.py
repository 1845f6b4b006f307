"""Results of checks for others: JUnit, SARIF, and the baseline of known findings: only new ones fail a build."""

import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

from pydantic import Field, ValidationError

from seatrial.check.grade import WEIGHTS, incompleteness, regraded
from seatrial.errors import UsageError
from seatrial.junit import CaseStatus, case_counts, xml_text
from seatrial.model.base import StrictModel, to_json
from seatrial.model.check import CheckFinding, CheckOutcome, TaskCheck, Weight
from seatrial.store.files import replace_file, storing
from seatrial.untrusted.files import read_file
from seatrial.untrusted.json import first_fault

_MOST_BYTES = 64 * 2**20


class CheckBaseline(StrictModel):
    """The ids of known findings, by task."""

    schema_version: int = Field(default=1, ge=1, le=1)
    known: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    def marked(self, check: TaskCheck) -> TaskCheck:
        """A result in which findings that are known do not count."""
        known = frozenset(self.known.get(check.task, ()))
        if not known:
            return check
        findings = [each.model_copy(update={"known": each.id in known}) for each in check.findings]
        return regraded(check, findings)

    def gone(self, checks: Iterable[TaskCheck]) -> Mapping[str, tuple[str, ...]]:
        """What is known and was not found any more, by task; only of what was looked at as a whole."""
        left = {check.task: tuple(sorted(self._gone_from(check))) for check in checks if check.grade}
        return {task: ids for task, ids in left.items() if ids}

    def _gone_from(self, check: TaskCheck) -> set[str]:
        done = {each.check for each in check.outcomes if each.status in ("passed", "failed") and not each.left_out}
        known = {each for each in self.known.get(check.task, ()) if each.partition("/")[0] in done}
        return known - {finding.id for finding in check.findings}


def read_baseline(path: Path) -> CheckBaseline:
    """A baseline that was written. Raises UsageError for a file that is none."""
    try:
        return CheckBaseline.model_validate_json(read_file(path, _MOST_BYTES))
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"{path}: the baseline cannot be read: {why}; --write-baseline {path} makes one") from error
    except ValidationError as error:
        why = first_fault(error)
        raise UsageError(f"{path}: not a baseline of findings: {why}; --write-baseline {path} makes one") from error


def write_baseline(path: Path, checks: Iterable[TaskCheck]) -> int:
    """Make a baseline of all that is found now and not accepted; returns how many findings it has."""
    known = {
        check.task: tuple(sorted(finding.id for finding in check.findings if not finding.accepted)) for check in checks
    }
    baseline = CheckBaseline(known={task: ids for task, ids in sorted(known.items()) if ids})
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, to_json(baseline))
    return sum(map(len, baseline.known.values()))


# JUnit, for build servers: a suite for each task, a case for each check.


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
    if check.out_of_time:
        case = ET.SubElement(suite, "testcase", classname=xml_text(check.task), name="is complete")
        ET.SubElement(case, "skipped", message=incompleteness(check))
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
    elif outcome.status in ("skipped", "not_run") and not failing:
        ET.SubElement(case, "skipped", message=reason)
    if others := [finding for finding in findings if finding not in failing]:
        ET.SubElement(case, "system-out").text = xml_text("\n".join(map(_told, others)))
    return case


def _told(finding: CheckFinding) -> str:
    marks = [finding.weight, *(["accepted"] if finding.accepted else []), *(["known"] if finding.known else [])]
    fix = f"\n  fix: {finding.fix}" if finding.fix else ""
    return f"{finding.id} ({', '.join(marks)}): {finding.message}{fix}\n  reproduce: {finding.reproduce}"


# SARIF 2.1.0, which code hosts show beside the files: a rule for each check, a result for each finding.

_LEVELS: dict[Weight, str] = {"critical": "error", "major": "error", "minor": "warning", "note": "note"}
_ABOUT_INSTRUCTION = ("V11",)
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"  # code hosts ask for it
_FINGERPRINT = "seatrialFinding/v1"


def sarif(checks: Sequence[TaskCheck], titles: Mapping[str, str], folders: Mapping[str, str], version: str) -> bytes:
    """The report. `folders` are the tasks' own, by id; `titles` say what each check is about."""
    rules = [{"id": check, "shortDescription": {"text": title}} for check, title in titles.items()]
    numbers = {check: number for number, check in enumerate(titles)}
    results = [
        _result(check, finding, folders.get(check.task, check.task), numbers)
        for check in checks
        for finding in check.findings
    ]
    run = {
        "tool": {"driver": {"name": "seatrial", "version": version, "rules": rules}},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": [*_unjudged(checks)]}],
        "results": results,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2).encode() + b"\n"


def _result(check: TaskCheck, finding: CheckFinding, folder: str, numbers: Mapping[str, int]) -> dict[str, Any]:
    file = "instruction.md" if finding.check in _ABOUT_INSTRUCTION else "tests/test.sh"
    fix = f" Fix: {finding.fix}." if finding.fix else ""
    result: dict[str, Any] = {
        "ruleId": finding.check,
        "level": _LEVELS[finding.weight],
        "message": {"text": f"{check.task}: {finding.message}.{fix} Reproduce: {finding.reproduce}"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(folder, file)}}}],
        "partialFingerprints": {_FINGERPRINT: f"{check.task}:{finding.id}"},
        "properties": {"id": finding.id, "weight": finding.weight, "task": check.task},
    }
    if finding.check in numbers:
        result["ruleIndex"] = numbers[finding.check]
    if not finding.counts:
        why = "accepted in task.toml" if finding.accepted else "known from a baseline"
        kind = "inSource" if finding.accepted else "external"
        result["suppressions"] = [{"kind": kind, "justification": why}]
    return result


def _unjudged(checks: Sequence[TaskCheck]) -> Iterator[dict[str, Any]]:
    for check in checks:
        if check.grade is None:
            text = f"{check.task} could not be judged: {'; '.join(check.reasons)}"
            yield {"level": "error", "message": {"text": text}}
        elif check.out_of_time:
            yield {"level": "warning", "message": {"text": f"{check.task}: {incompleteness(check)}"}}


def _uri(folder: str, file: str) -> str:
    path = posixpath.normpath(posixpath.join(folder, file))
    return Path(path).as_uri() if path.startswith("/") else quote(path)
