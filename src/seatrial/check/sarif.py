"""Results as SARIF 2.1.0, which code hosts show beside the files: a rule for each check, a result for each finding."""

import json
import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from seatrial.model.check import CheckFinding, TaskCheck, Weight

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
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": _unjudged(checks)}],
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


def _unjudged(checks: Sequence[TaskCheck]) -> list[dict[str, Any]]:
    return [
        {"level": "error", "message": {"text": f"{check.task} could not be judged: {'; '.join(check.reasons)}"}}
        for check in checks
        if check.grade is None
    ]


def _uri(folder: str, file: str) -> str:
    path = posixpath.normpath(posixpath.join(folder, file))
    return Path(path).as_uri() if path.startswith("/") else quote(path)
