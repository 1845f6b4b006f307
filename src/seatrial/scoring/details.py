"""The breakdown: details.json or its older name, extra keys of the reward file, and a CTRF test report."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from seatrial.model.artifacts import CTRF_JSON, DETAILS_NAMES, RawArtifacts, RawFile
from seatrial.model.evaluation import ConfidenceMetadata, ErrorTag
from seatrial.model.output import VerifierSpec
from seatrial.scoring.claims import CONFIDENCE_KEY, claimed_confidence, claimed_tags
from seatrial.scoring.findings import Finding, note
from seatrial.scoring.text import Unreadable, read_exact_json
from seatrial.verifier_kit import TAGS_KEY

MAX_DETAILS_BYTES = 8 * 2**20
_MAX_LISTED_TESTS = 100


@dataclass(frozen=True, slots=True)
class Details:
    """The breakdown as it will be stored, what the verifier claims besides, and the file the details came from."""

    breakdown: dict[str, Any] | None
    tags: tuple[ErrorTag, ...] = ()
    file: str | None = None
    findings: tuple[Finding, ...] = ()
    confidence: ConfidenceMetadata | None = None


def read_details(raw: RawArtifacts, spec: VerifierSpec, extras: Mapping[str, Any]) -> Details:
    """Put the breakdown together; nothing is dropped, and what collides is kept under the name of its file."""
    file = _details_file(raw, spec)
    findings: list[Finding] = []
    breakdown = _read_object(file, findings) if file else {}
    if file and file.name != DETAILS_NAMES[0]:
        findings.append(note(f"details were read from {file.name}"))
    tags = claimed_tags(breakdown.get(TAGS_KEY), findings)
    confidence = claimed_confidence(breakdown.get(CONFIDENCE_KEY), findings)
    for key, value in extras.items():
        if breakdown.setdefault(key, value) != value:
            breakdown[f"reward.{key}"] = value
    report = raw.file(CTRF_JSON)
    if report.status != "missing":
        breakdown["ctrf" if "ctrf" not in breakdown else CTRF_JSON] = _test_report(report, findings)
    return Details(breakdown or None, tags, file.name if file else None, tuple(findings), confidence)


def _details_file(raw: RawArtifacts, spec: VerifierSpec) -> RawFile | None:
    files = map(raw.file, _details_names(spec.details_path))
    return next((file for file in files if file.status != "missing"), None)


@lru_cache(maxsize=64)
def _details_names(declared: str | None) -> tuple[str, ...]:
    first = [PurePosixPath(declared).name] if declared else []
    return tuple(dict.fromkeys([*first, *DETAILS_NAMES]))


def _read_object(file: RawFile, findings: list[Finding]) -> dict[str, Any]:
    if file.status != "ok" or file.size > MAX_DETAILS_BYTES:
        limit = f"expected a JSON file of at most {MAX_DETAILS_BYTES:,} bytes"
        findings.append(Finding("details_invalid", f"{file.name}: found {file.describe()}; {limit}"))
        return {}
    try:
        value = read_exact_json(file.data)
    except Unreadable as error:
        findings.append(Finding("details_invalid", f"{file.name}: {error}"))
        return {}
    if isinstance(value, dict):
        return value
    findings.append(note(f"{file.name} is not an object; it is kept under `details`"))
    return {"details": value}


def _test_report(file: RawFile, findings: list[Finding]) -> dict[str, Any]:
    report = _read_object(file, findings)
    results = report.get("results")
    if not isinstance(results, dict):
        return report
    tests = results.get("tests")
    failed = [
        {key: test[key] for key in ("name", "status", "message") if key in test}
        for test in (tests if isinstance(tests, list) else ())
        if isinstance(test, dict) and test.get("status") != "passed"
    ]
    return {"summary": results.get("summary"), "not_passed": failed[:_MAX_LISTED_TESTS]}
