"""ingest: what a verifier left behind becomes an EvaluationResult, whatever it left behind."""

from collections.abc import Iterable

from seatrial.model.artifacts import RawArtifacts
from seatrial.model.evaluation import ErrorTag, EvaluationResult, ValidityCheck
from seatrial.model.output import RewardPolicy, VerdictSource
from seatrial.model.task import Task, TaskStep
from seatrial.scoring.classify import classify
from seatrial.scoring.details import read_details
from seatrial.scoring.findings import Finding
from seatrial.scoring.gates import apply_gates
from seatrial.scoring.output import check_output
from seatrial.scoring.reward import read_verdict


def ingest(
    task: Task | TaskStep, raw: RawArtifacts, policy: RewardPolicy = "declared", source: VerdictSource = "reward"
) -> EvaluationResult:
    """Turn raw artifacts into a validated result. Never raises on their content: bad content is part of the answer.

    `policy` says which reward file decides when there are two, `source` what does when there is none.
    """
    verdict = read_verdict(raw, task.verifier, policy, source)
    details = read_details(raw, task.verifier, verdict.extras)
    given = verdict.value or 0.0
    output = check_output(task.output, raw.output, given)
    reward, gated = apply_gates(given, task.output, output)
    findings = [*output.findings, *verdict.findings, *gated, *details.findings, *classify(details.breakdown)]
    return EvaluationResult(
        reward=reward,
        validity=ValidityCheck(
            output_parseable=output.parseable,
            schema_valid=output.schema_valid,
            verifier_completed=verdict.value is not None,
            errors=[finding.line() for finding in findings],
        ),
        breakdown=details.breakdown,
        error_taxonomy=_tags(findings, details.tags) or None,
        confidence=details.confidence,
    )


def _tags(findings: Iterable[Finding], declared: Iterable[ErrorTag]) -> list[ErrorTag]:
    """Our own tags, then the verifier's, less those that say again what ours already say."""
    ours = [finding.tag() for finding in findings if finding.kind != "note"]
    known = {tag.category for tag in ours}
    return ours + [tag for tag in declared if tag.category not in known]
