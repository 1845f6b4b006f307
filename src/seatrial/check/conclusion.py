"""How a check ends: passed when it found nothing that matters, failed otherwise, skipped with a reason."""

from collections.abc import Sequence

from seatrial.check.cases import CheckResult, Subject
from seatrial.model.base import JsonObject
from seatrial.model.check import CheckFinding, CheckId, CheckOutcome, Weight


def concluded(check: CheckId, findings: Sequence[CheckFinding], figures: JsonObject | None = None) -> CheckResult:
    """The result of a check that was carried out; a note alone fails nothing."""
    failed = any(finding.weight != "note" for finding in findings)
    return CheckResult(
        CheckOutcome(check=check, status="failed" if failed else "passed", figures=figures or {}), tuple(findings)
    )


def skipped(check: CheckId, reason: str) -> CheckResult:
    """The result of a check that has nothing to look at."""
    return CheckResult(CheckOutcome(check=check, status="skipped", reason=reason))


def finding_of(check: CheckId, subject: Subject, name: str, weight: Weight, message: str, fix: str) -> CheckFinding:
    """A finding that the whole check shows again, by its name: a code alone, or such as `no-verdict:junk`."""
    code, _, what = name.partition(":")
    return CheckFinding(
        check=check,
        code=code,
        subject=what,
        weight=weight,
        message=message,
        fix=fix,
        reproduce=subject.check_again("--only", check),
    )
