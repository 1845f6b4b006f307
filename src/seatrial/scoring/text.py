"""Finding: one thing scoring noticed, and how it reads in `validity.errors` and among the error tags."""

from typing import Literal, NamedTuple

from seatrial.model.evaluation import ErrorSource, ErrorTag, EvaluationResult


class Finding(NamedTuple):
    """A fault gets an error tag of its code; a note only informs; a hint informs and gets a tag."""

    code: str
    message: str
    kind: Literal["fault", "hint", "note"] = "fault"

    def line(self) -> str:
        return f"{self.code}: {self.message}" if self.kind == "fault" else f"note: {self.message}"

    def tag(self) -> ErrorTag:
        return ErrorTag(category=self.code, description=self.message, source=ErrorSource.MECHANICAL)


def note(message: str) -> Finding:
    return Finding("note", message, "note")


def with_finding(evaluation: EvaluationResult, finding: Finding) -> EvaluationResult:
    """The evaluation with one more line, and a tag unless it is a note."""
    validity = evaluation.validity.model_copy(update={"errors": [*evaluation.validity.errors, finding.line()]})
    tags = [*(evaluation.error_taxonomy or ()), *([finding.tag()] if finding.kind != "note" else [])]
    return evaluation.model_copy(update={"validity": validity, "error_taxonomy": tags or None})
